//===- RunToolTest.cpp - anabranch-run from the outside -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <cstdio>
#include <fstream>

namespace anabranch::testing {

namespace {

/// What a command prints, both streams, and its exit status.
std::string shell(const std::string &command, int &status) {
  std::string text;
  FILE *pipe = ::popen((command + " 2>&1").c_str(), "r");
  char piece[4096];
  while (size_t got = std::fread(piece, 1, sizeof(piece), pipe))
    text.append(piece, got);
  status = ::pclose(pipe);
  return text;
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A .npy file of f32 values.
std::string npy(const std::string &header, const std::vector<float> &values) {
  std::string text = header;
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(text.size());
  file += '\0';
  file += text;
  file.append(reinterpret_cast<const char *>(values.data()),
              values.size() * sizeof(float));
  return file;
}

class RunTool : public ::testing::Test {
protected:
  void SetUp() override {
    ProgramMaker m;
    int x = m.input("x", {fixed(2), fixed(3)});
    m.launch("increment", {x}, {m.output({fixed(2), fixed(3)})}, fixed(6));
    Status s = writeTestPackage(folder.path + "/package", m);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  std::string run(const std::string &arguments) {
    return shell(std::string(ANABRANCH_RUN_TOOL) + " " + folder.path +
                     "/package " + arguments,
                 status);
  }
  TemporaryFolder folder;
  int status = 0;
};

constexpr const char *header =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

TEST_F(RunTool, PinsWorkersAsTheEnvironmentSays) {
  ::setenv("ANABRANCH_PIN", "cores", 1);
  std::string text = run("--threads 3");
  EXPECT_EQ(status, 0) << text;
  ::setenv("ANABRANCH_PIN", "everywhere", 1);
  text = run("");
  ::unsetenv("ANABRANCH_PIN");
  EXPECT_NE(status, 0);
  EXPECT_NE(text.find("ANABRANCH_PIN: cannot pin workers to 'everywhere'"),
            std::string::npos)
      << text;
}

TEST_F(RunTool, SaysWhatItFoundAboutTheMachine) {
  std::string text = run("--machine");
  EXPECT_EQ(status, 0) << text;
  for (const char *fact : {"CPUs of this process: ", "CPU quota: ",
                           "memory limit: ", "threads of a call: "})
    EXPECT_NE(text.find(fact), std::string::npos) << text;
}

TEST_F(RunTool, RunsInTheModeThatTheEnvironmentSays) {
  for (const char *mode : {"shared", "members", "serial"}) {
    ::setenv("ANABRANCH_EXECUTION", mode, 1);
    std::string text = run("--threads 3");
    EXPECT_EQ(status, 0) << text;
  }
  ::setenv("ANABRANCH_EXECUTION", "quickly", 1);
  std::string text = run("");
  ::unsetenv("ANABRANCH_EXECUTION");
  EXPECT_NE(status, 0);
  EXPECT_NE(text.find("ANABRANCH_EXECUTION must be shared, members or serial, "
                      "not 'quickly'"),
            std::string::npos)
      << text;
}

TEST_F(RunTool, ReadsAndWritesNpy) {
  std::string in = folder.path + "/x.npy";
  writeFile(in, npy(header, iota(6)));
  std::string text =
      run("--inputs " + in + " --repeat 5 --output-dir " + folder.path);
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("output 0: f32[2, 3] checksum"), std::string::npos)
      << text;
  EXPECT_NE(text.find("5 runs: min"), std::string::npos) << text;
  EXPECT_EQ(readFile(folder.path + "/output0.npy"), npy(header, iota(6, 1)));
}

TEST_F(RunTool, RefusesMalformedNpy) {
  std::string in = folder.path + "/x.npy";
  std::string good = npy(header, iota(6));
  const std::string bad[] = {
      "",
      "hello, world, this is no array",
      good.substr(0, 9),
      good.substr(0, 40),
      good.substr(0, good.size() - 1),
      good + "x",
      npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
          iota(6)),
      npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }",
          iota(6)),
      npy("{'descr': '<f4', 'shape': (2, 3), }", iota(6)),
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }",
          iota(6)),
      npy("{'descr': '<f4', 'fortran_order': False, "
          "'shape': (9223372036854775807, 9223372036854775807), }",
          iota(6)),
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", iota(6)),
  };
  for (const std::string &bytes : bad) {
    writeFile(in, bytes);
    std::string text = run("--inputs " + in);
    EXPECT_EQ(WEXITSTATUS(status), 1) << text;
    EXPECT_NE(text.find("anabranch-run: "), std::string::npos) << text;
  }
}

TEST_F(RunTool, NamesAWrongArgument) {
  std::string in = folder.path + "/x.npy";
  writeFile(in, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }",
                    iota(6)));
  std::string text = run("--inputs " + in);
  EXPECT_EQ(text, "anabranch-run: argument 0 'x': expected 2 dimensions, got "
                  "shape [6]\n");
  EXPECT_EQ(run("--inputs 5"),
            "anabranch-run: argument 0 'x': expected a tensor, got an int\n");
  EXPECT_EQ(run("--inputs"), "anabranch-run: the program has 1 inputs, "
                             "--inputs gives 0\n");
}

TEST_F(RunTool, InventsInputsAndTraces) {
  std::string trace = folder.path + "/trace.json";
  std::string text = run("--trace " + trace + " --device cpu --threads 2");
  EXPECT_EQ(status, 0) << text;
  std::string json = readFile(trace);
  EXPECT_NE(json.find("\"name\":\"increment\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"source\":\"model.py:7\""), std::string::npos) << json;
}

TEST_F(RunTool, TracesFromTheEnvironment) {
  std::string trace = folder.path + "/trace.json";
  std::string text =
      shell("ANABRANCH_TRACE=" + trace + " " + ANABRANCH_RUN_TOOL + " " +
                folder.path + "/package --repeat 3",
            status);
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(readFile(trace).find("\"operators\":\"increment\""),
            std::string::npos);
}

TEST_F(RunTool, Inspects) {
  std::string text = run("--inspect");
  EXPECT_EQ(status, 0) << text;
  EXPECT_NE(text.find("launch increment(%0) -> (%1) sizes [6]  ; increment at "
                      "model.py:7"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"kind\": \"anabranch-package\""), std::string::npos);
}

TEST_F(RunTool, ExplainsItself) {
  EXPECT_NE(run("--repeat zero").find("usage:"), std::string::npos);
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

} // namespace
} // namespace anabranch::testing
