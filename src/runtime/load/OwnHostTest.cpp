//===- OwnHostTest.cpp - memory of results that the run sizes -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/OwnHost.h"

#include "anabranch/Layout.h"
#include "runtime/device/Devices.h"

#include <gtest/gtest.h>

#include <cstring>

namespace anabranch::runtime {

namespace {

TEST(OwnHost, MakesContiguousMemory) {
  OwnHost host(*findDevice("cpu"));
  for (int64_t rows : {0, 1, 5}) {
    const int64_t shape[] = {rows, 3};
    Expected<HostResult> made =
        host.make({nullptr, shape, nullptr, 2, DType::F32});
    ASSERT_TRUE(made);
    EXPECT_TRUE(isContiguous(made->tensor));
    EXPECT_EQ(made->tensor.shape[0], rows);
    std::memset(made->tensor.data, 1, static_cast<size_t>(rows) * 12);
    host.release(made->handle);
  }
}

TEST(OwnHost, HasNoMemoryForSizesThatNoMemoryHas) {
  OwnHost host(*findDevice("cpu"));
  constexpr int64_t large = int64_t(1) << 61;
  for (int64_t first : {large + 1, 4 * (large - 1), large - 1}) {
    const int64_t shape[] = {first, 2};
    Expected<HostResult> made =
        host.make({nullptr, shape, nullptr, 2, DType::I64});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.status().code(), StatusCode::OutOfMemory);
  }
}

} // namespace

} // namespace anabranch::runtime
