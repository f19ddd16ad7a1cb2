//===- TargetsTest.cpp - packages for several processors ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/targets/Targets.h"

#include "package/folder/CombineTargets.h"
#include "support/machine/UsualFeature.h"
#include "support/package/TestPrograms.h"

#include <fstream>
#include <gtest/gtest.h>

namespace anabranch::testing {

namespace {

ManifestTarget target(const std::string &name, const std::string &feature) {
  ManifestTarget made;
  made.name = name;
  made.cpu = machine::hostCpu();
  made.features = {feature};
  return made;
}

/// One target that every machine can run, and one that no machine can.
class Targets : public ::testing::Test {
protected:
  void SetUp() override {
    int x = maker.input("x", {fixed(16)}, package::DType::F32, true);
    int w = maker.constant("w", {fixed(16)}),
        v = maker.constant("v", {fixed(16)});
    int packed = maker.persistent(0, {fixed(16)}, 64);
    maker.initializing = true;
    maker.launch("twice", {v}, {packed}, fixed(16));
    maker.initializing = false;
    maker.launch("increment", {w, packed}, {maker.output({fixed(16)})},
                 fixed(16));
    (void)x;
    weight.assign(16, 3.5f);
    for (const char *name : {"v", "w"})
      maker.constants.push_back(
          {name, anabranch::DType::F32, {16}, weight.data()});
    std::ofstream(folder.path + "/library") << "not really ELF";
    write("plain", machine::usualFeature());
    write("rich", "no such feature");
    path = folder.path + "/package";
  }
  void write(const std::string &name, const std::string &feature) {
    Contents contents;
    contents.program = &maker.p;
    contents.constants = maker.constants;
    contents.kernelsPath = folder.path + "/library";
    contents.targetCpu = machine::hostCpu();
    contents.targetFeatures = {feature};
    Status s = writePackage(folder.path + "/" + name, contents);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  LoadedTarget part(const std::string &name) {
    ReadOptions options;
    options.checkCpu = options.checkHashes = false;
    auto read = readPackage(folder.path + "/" + name, options);
    EXPECT_TRUE(read.ok()) << read.status().message();
    return {name, std::move(*read), nullptr};
  }
  std::string combine(bool prepared = false) {
    Combination c;
    c.targets.push_back(part("plain"));
    c.targets.push_back(part("rich"));
    if (prepared)
      for (LoadedTarget &each : c.targets)
        each.prepared = memory;
    c.signature = signature;
    c.state = state;
    c.replace = replace;
    return combineTargets(path, std::move(c)).message();
  }
  std::string reason(const std::string &wanted = "") {
    ReadOptions options;
    options.target = wanted;
    auto read = readPackage(path, options);
    if (!read)
      return read.status().message();
    package = std::move(*read);
    return "";
  }
  void edit(const std::string &name, const std::string &from,
            const std::string &to) {
    std::ifstream file(path + "/" + name, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(file), {});
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path + "/" + name, std::ios::binary) << text;
  }

  TemporaryFolder folder;
  ProgramMaker maker;
  std::vector<float> weight;
  float memory[16] = {1, 2, 3};
  std::string path, signature;
  std::vector<Constant> state;
  bool replace = false;
  std::unique_ptr<Package> package;
};

#define EXPECT_PART(text, part)                                                \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Targets, TheBestThatRunsHereIsRun) {
  ASSERT_EQ(combine(), "");
  ASSERT_EQ(reason(), "");
  EXPECT_EQ(package->target, "plain");
  EXPECT_EQ(package->kernelsPath, path + "/targets/plain/kernels.so");
  EXPECT_EQ(package->prepared.size(), 0u);
  EXPECT_TRUE(package->constants.find("v"));
  EXPECT_EQ(reason("plain"), "");
}

TEST_F(Targets, WhatCannotRunIsRefusedByName) {
  ASSERT_EQ(combine(), "");
  EXPECT_PART(reason("rich"), "lacks what its kernels need: no such feature");
  EXPECT_PART(reason("other"), "has no target 'other', only: plain, rich");
  ::setenv("ANABRANCH_TARGET", "rich", 1);
  EXPECT_PART(reason(), "no such feature");
  EXPECT_EQ(reason("plain"), "");
  ::unsetenv("ANABRANCH_TARGET");
}

TEST_F(Targets, NoneThatRunsSaysWhatEachLacks) {
  Manifest m;
  m.targets = {target("a", "one"), target("b", "two")};
  std::string text = chooseTarget(m, "", /*checkCpu=*/true).status().message();
  EXPECT_PART(text, "a: this CPU lacks what its kernels need: one");
  EXPECT_PART(text, "b: this CPU lacks what its kernels need: two");
  EXPECT_EQ((*chooseTarget(m, "", /*checkCpu=*/false))->name, "a");
}

TEST_F(Targets, PreparedWeightsReplaceWhatOnlyInitializeReads) {
  ASSERT_EQ(combine(true), "");
  ASSERT_EQ(reason(), "");
  ASSERT_EQ(package->prepared.size(), 64u);
  EXPECT_EQ(reinterpret_cast<const float *>(package->prepared.data())[1], 2);
  EXPECT_FALSE(package->constants.find("v"));
  EXPECT_TRUE(package->constants.find("w"));
  std::ofstream(path + "/targets/plain/prepared.bin") << std::string(64, 'x');
  EXPECT_PART(reason(), "targets/plain/prepared.bin differs from its hash");
  std::filesystem::remove(path + "/targets/plain/prepared.bin");
  EXPECT_PART(reason(), "cannot open prepared.bin");
}

TEST_F(Targets, ASignatureMustSayWhatIsTrue) {
  signature = R"({"inputs": [{"name": "x", "state": true}],
                  "outputs": ["y"], "results": 0})";
  EXPECT_EQ(combine(), "");
  EXPECT_PART(reason(), "state 'x' has no fitting first value");
  replace = true;
  state = {{"x", anabranch::DType::F32, {16}, weight.data()}};
  EXPECT_EQ(combine(), "");
  ASSERT_EQ(reason(), "");
  EXPECT_EQ(package->manifest.signature.outputs, std::vector<std::string>{"y"});
  EXPECT_TRUE(package->constants.find("state:x"));
  edit("manifest.json", "\"y\"", "\"y\", \"z\"");
  EXPECT_PART(reason(), "other inputs or outputs than its program");
  edit("manifest.json", "\"y\", \"z\"", "\"y\"");
  edit("manifest.json", "\"name\": \"x\"", "\"name\": \"q\"");
  EXPECT_PART(reason(), "calls input 'x' 'q'");
  signature = R"({"inputs": 3, "outputs": []})";
  EXPECT_PART(combine(), "signature/inputs");
}

TEST_F(Targets, FoldersAreCheckedAsThePackageIs) {
  ASSERT_EQ(combine(), "");
  EXPECT_PART(combine(), "exists; it is left alone");
  std::filesystem::rename(path + "/targets/plain", folder.path + "/moved");
  std::filesystem::create_directory_symlink(folder.path + "/moved",
                                            path + "/targets/plain");
  EXPECT_PART(reason(), "plain is refused: it is a link");
  std::filesystem::remove(path + "/targets/plain");
  std::filesystem::rename(folder.path + "/moved", path + "/targets/plain");
  std::filesystem::permissions(path + "/targets",
                               std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_PART(reason(), "others than its owner may write");
}

TEST(TargetName, IsAFolderOfThePackage) {
  for (const char *good : {"native", "x86-64-v4", "a_b.c"})
    EXPECT_TRUE(isTargetName(good)) << good;
  for (const char *bad : {"", ".", "..", "a/b", "a b", ".hidden"})
    EXPECT_FALSE(isTargetName(bad)) << bad;
  EXPECT_FALSE(isTargetName(std::string(65, 'a')));
}

} // namespace

} // namespace anabranch::testing
