//===- ReaderTest.cpp - good packages open, all others are refused --------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/folder/Reader.h"

#include "anabranch/Inspect.h"
#include "anabranch/KernelABI.h"
#include "support/machine/UsualFeature.h"
#include "support/package/TestPrograms.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace anabranch::testing {

namespace {

class Reader : public ::testing::Test {
protected:
  void SetUp() override {
    int x = maker.input("x", {fixed(16)});
    int w = maker.constant("w", {fixed(16)});
    maker.launch("increment", {x, w}, {maker.output({fixed(16)})}, fixed(16));
    weight.assign(16, 3.5f);
    maker.constants.push_back(
        {"w", anabranch::DType::F32, {16}, weight.data()});
    maker.constants.push_back({"odd", anabranch::DType::U8, {3}, "abc"});
    maker.constants.push_back(
        {"empty", anabranch::DType::I64, {0, 4}, nullptr});
    path = folder.path + "/package";
    std::ofstream(folder.path + "/library") << "not really ELF";
    contents.program = &maker.p;
    contents.constants = maker.constants;
    contents.kernelsPath = folder.path + "/library";
    contents.targetCpu = machine::hostCpu();
    contents.targetFeatures = {machine::usualFeature()};
    contents.config = "{\"freeze\": true}";
    contents.extras["model"] = "test";
  }

  void write() {
    Status s = writePackage(path, contents);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  std::string reason(const ReadOptions &options = {}) {
    auto package = readPackage(path, options);
    return package ? "" : package.status().message();
  }
  std::string load(const std::string &name) {
    std::ifstream file(path + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void store(const std::string &name, const std::string &bytes) {
    // The file is removed first: truncating one makes some file systems wait
    // for the disk.
    std::filesystem::remove(path + "/" + name);
    std::ofstream file(path + "/" + name, std::ios::binary);
    file << bytes;
    file.close();
    ::chmod((path + "/" + name).c_str(), 0600);
  }
  void replace(const std::string &name, const std::string &from,
               const std::string &to) {
    std::string text = load(name);
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    store(name, text.replace(at, from.size(), to));
  }

  TemporaryFolder folder;
  ProgramMaker maker;
  std::vector<float> weight;
  Contents contents;
  std::string path;
};

#define EXPECT_REASON(part)                                                    \
  EXPECT_NE(reason().find(part), std::string::npos) << reason()

TEST_F(Reader, ReadsWhatWasWritten) {
  write();
  auto package = readPackage(path);
  ASSERT_TRUE(package.ok()) << package.status().message();
  const Manifest &m = (*package)->manifest;
  EXPECT_EQ(m.kernels, std::vector<std::string>{"increment"});
  EXPECT_EQ(m.features, std::vector<std::string>{machine::usualFeature()});
  EXPECT_EQ(m.extras.at("model"), "test");
  EXPECT_EQ(m.config, "{\"freeze\":true}");
  EXPECT_EQ((*package)->kernelsPath, path + "/kernels.so");
  EXPECT_EQ((*package)->program.streams[0]->commands.size(), 1u);
  const StoredTensor *w = (*package)->constants.find("w");
  ASSERT_TRUE(w);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w->data) % 64, 0u);
  EXPECT_EQ(static_cast<const float *>(w->data)[15], 3.5f);
  EXPECT_EQ((*package)->constants.find("odd")->bytes, 3u);
  EXPECT_EQ((*package)->constants.find("empty")->shape,
            (std::vector<int64_t>{0, 4}));
}

TEST_F(Reader, TheManifestSaysWhatRegionsNeed) {
  ProgramMaker region;
  int x = region.input("x", {fixed(16)});
  region.launch("decrement", {x}, {region.output({fixed(16)})}, fixed(16));
  CallT call;
  call.op = "test::wait";
  region.push(std::move(call), 0);
  region.p.needs_libtorch = true;
  maker.region(std::move(region));
  write();
  auto package = readPackage(path);
  ASSERT_TRUE(package.ok()) << package.status().message();
  const Manifest &m = (*package)->manifest;
  EXPECT_EQ(m.kernels, (std::vector<std::string>{"increment", "decrement"}));
  EXPECT_TRUE(m.needsLibtorch);
}

TEST_F(Reader, WritesForTheOwnerOnly) {
  write();
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const char *name : {"manifest.json", "program.bin", "kernels.so",
                           "constants.safetensors"}) {
    ASSERT_EQ(::stat((path + "/" + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(Reader, ReplacesAPackageButNothingElse) {
  write();
  contents.takeKernels = true;
  write();
  EXPECT_EQ(reason(), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/library"));
  // The writer leaves nothing beside the package.
  int entries = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder.path))
    entries += entry.exists();
  EXPECT_EQ(entries, 1);
  path = folder.path;
  contents.kernelsPath.clear();
  Status s = writePackage(path, contents);
  EXPECT_NE(s.message().find("is not a package; it is left alone"),
            std::string::npos)
      << s.message();
}

TEST_F(Reader, RefusesTruncations) {
  write();
  for (const char *name : {"manifest.json", "program.bin", "kernels.so",
                           "constants.safetensors"}) {
    std::string whole = load(name);
    for (size_t size = 0; size < whole.size(); size += 1 + size / 16) {
      store(name, whole.substr(0, size));
      for (bool hashes : {true, false}) {
        ReadOptions options;
        options.checkHashes = hashes;
        // The manifest's last byte is a line feed, which a reader does not
        // need.
        if (std::string(name) != "manifest.json" || size + 1 < whole.size())
          EXPECT_NE(reason(options), "") << name << " cut at " << size;
      }
    }
    store(name, whole);
  }
  EXPECT_EQ(reason(), "");
}

TEST_F(Reader, RefusesChangedBytes) {
  write();
  for (const char *name :
       {"program.bin", "kernels.so", "constants.safetensors"}) {
    std::string whole = load(name);
    for (size_t at = 0; at < whole.size(); at += 1 + at % 3) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
      store(name, changed);
      EXPECT_REASON("differs from its hash");
      // Without hashes the reader does not notice every change. It must not
      // crash.
      ReadOptions options;
      options.checkHashes = false;
      (void)reason(options);
      (void)inspectPackage(path);
    }
    store(name, whole);
  }
}

TEST_F(Reader, SurvivesAChangedManifest) {
  write();
  std::string whole = load("manifest.json");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = "\0\"9{\xff"[at % 5];
    store("manifest.json", changed);
    (void)reason();
  }
}

TEST_F(Reader, RefusesForeignThings) {
  EXPECT_REASON("cannot open package");
  std::filesystem::create_directory(path);
  EXPECT_REASON("cannot open manifest.json");
  store("manifest.json", "{\"kind\": \"holiday pictures\"}");
  EXPECT_REASON("this is not an Anabranch package");
  store("manifest.json", "[1, 2]");
  EXPECT_REASON("not a JSON object");
  store("manifest.json", std::string(100000, '['));
  EXPECT_REASON("not a JSON object");
}

TEST_F(Reader, RefusesOtherVersionsAndMachines) {
  write();
  std::string whole = load("manifest.json");
  replace("manifest.json", "\"format\": 4", "\"format\": 7");
  EXPECT_REASON("it has format 7, this runtime reads format 4");
  store("manifest.json", whole);
  std::string own = std::to_string(ANABRANCH_KERNEL_ABI_VERSION);
  replace("manifest.json", "\"abi\": " + own, "\"abi\": 99");
  EXPECT_REASON("was made for kernel ABI 99, this runtime has " + own);
  store("manifest.json", whole);
  std::string host = machine::hostCpu();
  replace("manifest.json", '"' + host + '"', "\"sparc\"");
  EXPECT_REASON("was made for sparc, this machine is " + host);
  store("manifest.json", whole);
  replace("manifest.json", '"' + std::string(machine::usualFeature()) + '"',
          "\"amx-turbo\"");
  EXPECT_REASON("this CPU lacks what its kernels need: amx-turbo");
  ReadOptions options;
  options.checkCpu = false;
  EXPECT_EQ(reason(options), "");
}

TEST_F(Reader, RefusesWhatOthersMayChange) {
  write();
  ::chmod(path.c_str(), 0777);
  EXPECT_REASON("others than its owner may write to it");
  ::chmod(path.c_str(), 0755);
  EXPECT_EQ(reason(), "");
  ::chmod((path + "/program.bin").c_str(), 0620);
  EXPECT_REASON("program.bin is refused: others than its owner may write");
}

TEST_F(Reader, TrustsAsFarAsItIsTold) {
  write();
  const std::string file = path + "/program.bin";
  ReadOptions group, anyone, wrong;
  group.trust = "group";
  anyone.trust = "anyone";
  wrong.trust = "friends";
  EXPECT_EQ(reason(wrong),
            "trust must be user, group or anyone, not 'friends'");
  // A group of this process may write the file; others may not.
  ::chmod(file.c_str(), 0660);
  EXPECT_REASON("trust=\"group\" or ANABRANCH_TRUST=group accepts it");
  EXPECT_EQ(reason(group), "");
  ::chmod(file.c_str(), 0666);
  EXPECT_REASON("trust=\"anyone\" or ANABRANCH_TRUST=anyone accepts it");
  EXPECT_NE(reason(group), "");
  EXPECT_EQ(reason(anyone), "");
  ::setenv("ANABRANCH_TRUST", "anyone", 1);
  EXPECT_EQ(reason(), "");
  ::setenv("ANABRANCH_TRUST", "nobody", 1);
  EXPECT_REASON("ANABRANCH_TRUST must be user, group or anyone");
  ::unsetenv("ANABRANCH_TRUST");
  // A ConfigMap of Kubernetes has links.
  ::chmod(file.c_str(), 0600);
  std::filesystem::rename(file, folder.path + "/elsewhere");
  std::filesystem::create_symlink(folder.path + "/elsewhere", file);
  EXPECT_EQ(reason(group), "");
  EXPECT_EQ(reason(anyone), "");
  // The target of a link is checked too.
  ::chmod((folder.path + "/elsewhere").c_str(), 0666);
  EXPECT_NE(reason(group), "");
}

TEST_F(Reader, TrustsTheGroupsOfTheProcess) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  write();
  ReadOptions group, anyone;
  group.trust = "group";
  anyone.trust = "anyone";
  const std::string file = path + "/program.bin";
  ASSERT_EQ(::chown(file.c_str(), 12345, ::getegid()), 0);
  EXPECT_REASON("it belongs to another user; trust=\"group\"");
  EXPECT_EQ(reason(group), "");
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  EXPECT_REASON("it belongs to another user; trust=\"anyone\"");
  EXPECT_NE(reason(group), "");
  EXPECT_EQ(reason(anyone), "");
}

TEST_F(Reader, RefusesWhatIsNoPlainFile) {
  write();
  std::string file = path + "/program.bin";
  std::filesystem::rename(file, folder.path + "/elsewhere");
  std::filesystem::create_symlink(folder.path + "/elsewhere", file);
  EXPECT_REASON("program.bin is refused: it is a link; trust=\"group\" or "
                "ANABRANCH_TRUST=group accepts it");
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_REASON("not a regular file");
}

TEST_F(Reader, RefusesMissingPieces) {
  write();
  std::filesystem::remove(path + "/kernels.so");
  EXPECT_REASON("cannot open kernels.so");
  contents.constants.clear();
  write();
  EXPECT_REASON("constant 'w' is missing");
  weight.assign(16, 1);
  contents.constants = {{"w", anabranch::DType::F32, {4}, weight.data()}};
  write();
  EXPECT_REASON("constant 'w' is not what the program expects");
  contents.constants = {{"w", anabranch::DType::C64, {4}, weight.data()}};
  write();
  EXPECT_REASON("constant 'w' is not what the program expects");
}

TEST_F(Reader, TakesPairsOfComplexConstants) {
  contents.constants = {{"w", anabranch::DType::C64, {8}, weight.data()}};
  write();
  auto package = readPackage(path);
  EXPECT_TRUE(package.ok()) << package.status().message();
}

TEST_F(Reader, WithoutHashesOnlyItsWriterOpensIt) {
  contents.hashFiles = false;
  write();
  EXPECT_REASON("the manifest has no hash for program.bin");
  ReadOptions options;
  options.checkHashes = false;
  EXPECT_EQ(reason(options), "");
}

TEST_F(Reader, WriterRefusesAWrongProgram) {
  maker.p.outputs[0]->buffer = 77;
  Status s = writePackage(path, contents);
  EXPECT_EQ(s.code(), StatusCode::Internal);
  EXPECT_FALSE(std::filesystem::exists(path));
  contents.constants = {{"a", anabranch::DType::F32, {-1}, nullptr}};
  maker.p.outputs[0]->buffer = 2;
  EXPECT_FALSE(writePackage(path, contents).ok());
}

TEST_F(Reader, WritersRaceWithoutHarm) {
  std::vector<std::thread> writers;
  writers.reserve(4);
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int n = 0; n < 10; ++n)
        (void)writePackage(path, contents);
    });
  for (std::thread &writer : writers)
    writer.join();
  EXPECT_EQ(reason(), "");
}

TEST_F(Reader, InspectsInWords) {
  write();
  auto text = inspectPackage(path);
  ASSERT_TRUE(text.ok()) << text.status().message();
  for (const char *part :
       {"input 0 x: f32[16]", "%1 = Constant 'w': f32[16]",
        "launch increment(%0, %1) -> (%2) sizes [16]", "output 0: %2"})
    EXPECT_NE(text->find(part), std::string::npos) << *text;
}

} // namespace
} // namespace anabranch::testing
