//===- DeployTest.cpp - an installed runtime is found and linked ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <fstream>

namespace anabranch::testing {

TEST(Deploy, AProgramOfItsOwnRunsAPackage) {
  TemporaryFolder folder;
  ASSERT_TRUE(
      writeTestPackage(folder.path + "/package", incrementProgram(10)).ok());
  auto shell = [&](const std::string &command) {
    std::string log = folder.path + "/log";
    int status = std::system((command + " >" + log + " 2>&1").c_str());
    std::ifstream file(log);
    std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(status, 0) << command << "\n" << text;
    return text;
  };
  std::string prefix = folder.path + "/installed", build = folder.path + "/b";
  shell("cmake --install " ANABRANCH_BINARY_DIR
        " --component runtime --prefix " +
        prefix);
  shell("cmake -G Ninja -S " ANABRANCH_SOURCE_DIR "/examples/05_deploy -B " +
        build + " -DCMAKE_PREFIX_PATH=" + prefix + " " ANABRANCH_OUTSIDE);
  shell("cmake --build " + build);
  std::string program = ANABRANCH_LAUNCHER + build + "/deploy",
              package = " " + folder.path + "/package";
  std::string said = shell(program + package);
  EXPECT_NE(said.find(": 10 sum 20\n"), std::string::npos) << said;
  EXPECT_EQ(shell(program + "_c" + package), ": 10\n");
}

} // namespace anabranch::testing
