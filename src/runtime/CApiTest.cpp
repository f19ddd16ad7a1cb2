//===- CApiTest.cpp - plain C opens, runs and reads errors ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/anabranch.h"

#include "runtime/TestSupport.h"

extern "C" anabranch_status *anabranch_test_client(const char *path,
                                                   float *values, int64_t count,
                                                   float *sum);

namespace anabranch::testing {

TEST(CApi, RunsAPackage) {
  TemporaryFolder folder;
  ProgramMaker m;
  int x = m.input("x", {fixed(10)});
  m.launch("increment", {x}, {m.output({fixed(10)})}, fixed(10));
  std::string path = folder.path + "/package";
  ASSERT_TRUE(writeTestPackage(path, m).ok());
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

} // namespace anabranch::testing
