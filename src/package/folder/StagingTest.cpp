//===- StagingTest.cpp - constants that are written -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/folder/Staging.h"

#include "package/files/Safetensors.h"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <numeric>
#include <unistd.h>

namespace anabranch::package {

namespace {

/// The elements of each constant, as a reader of the file finds them.
std::vector<std::vector<int32_t>>
writtenAndRead(const std::vector<Constant> &constants) {
  std::string path = ::testing::TempDir() + "staging-XXXXXX";
  EXPECT_NE(::mkdtemp(path.data()), nullptr);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY));
  ManifestFile row;
  EXPECT_TRUE(writeConstants(folder, constants, true, row).ok());
  int fd = ::open((path + "/constants.safetensors").c_str(), O_RDONLY);
  auto mapped = Safetensors::read(std::move(*Mapping::map(fd, "constants")));
  ::close(fd);
  removeFolder(path);
  std::vector<std::vector<int32_t>> found;
  for (const Constant &constant : constants) {
    const StoredTensor *stored = mapped->find(constant.name);
    EXPECT_EQ(stored->shape, constant.shape);
    const auto *data = static_cast<const int32_t *>(stored->data);
    found.emplace_back(data, data + stored->bytes / sizeof(int32_t));
  }
  return found;
}

} // namespace

TEST(WriteConstants, GathersElementsThatLieApart) {
  std::vector<int32_t> memory(12);
  std::iota(memory.begin(), memory.end(), 0);
  auto found = writtenAndRead({
      {"plain", anabranch::DType::I32, {2, 3}, memory.data(), {}},
      {"transposed", anabranch::DType::I32, {3, 2}, memory.data(), {1, 3}},
      {"gaps", anabranch::DType::I32, {2, 2}, memory.data() + 1, {6, 2}},
      {"repeated", anabranch::DType::I32, {2, 2}, memory.data() + 5, {0, 1}},
      {"scalar", anabranch::DType::I32, {}, memory.data() + 7, {}},
      {"empty", anabranch::DType::I32, {0, 4}, nullptr, {1, 8}},
  });
  using Elements = std::vector<int32_t>;
  EXPECT_EQ(found[0], (Elements{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(found[1], (Elements{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(found[2], (Elements{1, 3, 7, 9}));
  EXPECT_EQ(found[3], (Elements{5, 6, 5, 6}));
  EXPECT_EQ(found[4], (Elements{7}));
  EXPECT_EQ(found[5], Elements());
}

TEST(WriteConstants, GathersMoreThanItsBufferHolds) {
  constexpr int64_t rows = 1031, columns = 517;
  std::vector<int32_t> memory(rows * columns);
  std::iota(memory.begin(), memory.end(), 0);
  auto found = writtenAndRead({{"wide",
                                anabranch::DType::I32,
                                {columns, rows},
                                memory.data(),
                                {1, columns}}});
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r)
      ASSERT_EQ(found[0][size_t(c * rows + r)], r * columns + c);
}

} // namespace anabranch::package
