//===- CApiTest.cpp - plain C opens, runs and reads errors ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/anabranch.h"

#include "support/runtime/TestSupport.h"

#include <sys/stat.h>

extern "C" anabranch_status *anabranch_test_client(const char *path,
                                                   float *values, int64_t count,
                                                   float *sum);

namespace anabranch::testing {

TEST(CApi, RunsAPackage) {
  PackageFolder folder;
  std::string path = folder.write(incrementProgram(10));
  std::vector<float> values = iota(10);
  float sum = 0;
  anabranch_status *status =
      anabranch_test_client(path.c_str(), values.data(), 10, &sum);
  EXPECT_EQ(anabranch_status_code_of(status), ANABRANCH_OK);
  EXPECT_STREQ(anabranch_status_message(status), "");
  anabranch_status_free(status);
  EXPECT_EQ(sum, 55);

  status = anabranch_test_client(path.c_str(), values.data(), 9, &sum);
  EXPECT_EQ(anabranch_status_code_of(status), ANABRANCH_INVALID_ARGUMENT);
  EXPECT_STREQ(anabranch_status_message(status),
               "argument 0 'x': expected shape [10], got [9]");
  anabranch_status_free(status);

  status = anabranch_test_client("/nowhere", values.data(), 9, &sum);
  EXPECT_EQ(anabranch_status_code_of(status), ANABRANCH_IO_ERROR);
  anabranch_status_free(status);
  EXPECT_STREQ(anabranch_version(), version());
}

TEST(CApi, OpensPackagesOfThoseWhoAreTrusted) {
  TemporaryFolder folder;
  ProgramMaker m;
  int x = m.input("x", {fixed(10)});
  m.launch("increment", {x}, {m.output({fixed(10)})}, fixed(10));
  std::string path = folder.path + "/package";
  ASSERT_TRUE(writeTestPackage(path, m).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  anabranch_open_options options = {};
  anabranch_executable *executable = nullptr;
  anabranch_status *status =
      anabranch_open(path.c_str(), &options, &executable);
  EXPECT_EQ(anabranch_status_code_of(status), ANABRANCH_BAD_PACKAGE);
  EXPECT_NE(std::string(anabranch_status_message(status)).find("anyone"),
            std::string::npos);
  anabranch_status_free(status);
  options.trust = "anyone";
  ASSERT_EQ(anabranch_open(path.c_str(), &options, &executable), nullptr);
  anabranch_close(executable);
}

TEST(CApi, DescribesInputsAndOutputs) {
  TemporaryFolder folder;
  ProgramMaker m;
  int x = m.input("x", {fixed(10)});
  m.scalar("n", 0);
  m.p.slots = 1;
  m.launch("increment", {x}, {m.output({fixed(10)})}, fixed(10));
  std::string path = folder.path + "/package";
  ASSERT_TRUE(writeTestPackage(path, m).ok());
  anabranch_executable *executable = nullptr;
  ASSERT_EQ(anabranch_open(path.c_str(), nullptr, &executable), nullptr);
  anabranch_value_info info;
  ASSERT_EQ(anabranch_describe_input(executable, 0, &info), nullptr);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(info.kind, ANABRANCH_INPUT_TENSOR);
  EXPECT_EQ(info.dtype, ANABRANCH_F32);
  ASSERT_EQ(info.rank, 1);
  EXPECT_EQ(info.shape[0], 10);
  EXPECT_EQ(info.strides[0], 1);
  EXPECT_FALSE(info.mutated);
  EXPECT_EQ(info.initial, nullptr);
  ASSERT_EQ(anabranch_describe_input(executable, 1, &info), nullptr);
  EXPECT_EQ(info.kind, ANABRANCH_INPUT_SCALAR);
  ASSERT_EQ(anabranch_describe_output(executable, 0, &info), nullptr);
  EXPECT_EQ(info.kind, ANABRANCH_OUTPUT_TENSOR);
  EXPECT_STREQ(info.name, "");
  anabranch_status *status = anabranch_describe_input(executable, 2, &info);
  EXPECT_STREQ(anabranch_status_message(status), "there is no input 2");
  anabranch_status_free(status);
  EXPECT_STREQ(anabranch_target(executable), "");
  anabranch_close(executable);
  EXPECT_EQ(anabranch_item_size(ANABRANCH_BF16), 2u);
  EXPECT_EQ(anabranch_item_size(99), 0u);
  EXPECT_STREQ(anabranch_dtype_name(ANABRANCH_BF16), "bf16");
  EXPECT_EQ(anabranch_dtype_name(99), nullptr);
  EXPECT_EQ(anabranch_dtype_name(-1), nullptr);
  anabranch_open_options options = {};
  options.target = "x86-64-v9";
  status = anabranch_open(path.c_str(), &options, &executable);
  EXPECT_STREQ(anabranch_status_message(status),
               "the package has one program and no target 'x86-64-v9'");
  EXPECT_EQ(anabranch_status_code_of(status), ANABRANCH_UNSUPPORTED);
  anabranch_status_free(status);
}

} // namespace anabranch::testing
