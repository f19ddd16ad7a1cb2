//===- Int8DotTest.cpp - which instructions multiply bytes ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/kernels/GemmCase.h"
#include "support/kernels/KernelLibrary.h"
#include "support/native/ParsedKernel.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

/// The assembly of a product for a target.
std::string assemblyOf(const GemmCase &c, llvm::StringRef target) {
  llvm::SmallString<128> folder;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("int8-dot", folder));
  native::ParsedKernel parsed(kernelText(c));
  EXPECT_TRUE(parsed);
  native::CompileOptions options;
  options.target = llvm::cantFail(native::TargetInfo::get(target));
  options.dumpDirectory = folder.str();
  auto library = KernelLibrary::load(parsed.module(), options);
  EXPECT_TRUE(bool(library)) << llvm::toString(library.takeError());
  llvm::SmallString<128> path = folder;
  llvm::sys::path::append(path, "product.s");
  auto file = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(bool(file));
  std::string text = file ? (*file)->getBuffer().str() : "";
  EXPECT_FALSE(llvm::sys::fs::remove_directories(folder));
  return text;
}

struct Expected {
  const char *target;
  const char *instruction;
  const char *registers; ///< that the instruction works on
};

const Expected expected[] = {
    {"avx2", "vpmaddwd", "%ymm"},        {"avxvnni", "vpdpbusd", "%ymm"},
    {"avxvnniint8", "vpdpbssd", "%ymm"}, {"avx512", "vpmaddwd", "%zmm"},
    {"avx512vnni", "vpdpbusd", "%zmm"},  {"amx", "tdpbssd", "%tmm"},
};

class Int8DotTest : public testing::TestWithParam<Expected> {};

TEST_P(Int8DotTest, UsesTheInstructionOfTheTarget) {
  for (const GemmCase &c :
       {GemmCase{"live", 1, 40, 96, 256, "mk", "kn", "i8"},
        GemmCase{"panels", 1, 40, 96, 256, "mk", "nk", "i8", false, 32, 4}}) {
    std::string text = assemblyOf(c, GetParam().target);
    bool found = false;
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(text).split(lines, '\n');
    for (llvm::StringRef line : lines) {
      // "{vex}" may precede the instruction's name.
      found |= line.contains(std::string(GetParam().instruction) + "\t") &&
               line.contains(GetParam().registers);
      // These instructions saturate.
      EXPECT_FALSE(line.contains("vpmaddubsw") || line.contains("vpdpbusds"));
    }
    EXPECT_TRUE(found) << c.name;
  }
}

/// Reading the right operand takes all the time of a single row, whatever
/// multiplies it.
TEST(Int8Dot, AmxIsForSeveralRows) {
  GemmCase one{"one", 1, 1, 960, 256, "mk", "nk", "i8", false, 32, 4};
  EXPECT_EQ(assemblyOf(one, "amx").find("tdpbssd"), std::string::npos);
  EXPECT_NE(assemblyOf(one, "amx").find("vpdpbusd"), std::string::npos);
  GemmCase eight{"eight", 1, 8, 960, 256, "mk", "nk", "i8", false, 32, 4};
  EXPECT_NE(assemblyOf(eight, "amx").find("tdpbssd"), std::string::npos);
}

TEST(TileBlock, MultipliesPairsOfBF16) {
  GemmCase packed{"packed", 1, 64, 96, 256, "mk", "nk", "bf16", false, 32, 2};
  GemmCase live{"live", 1, 64, 96, 256, "mk", "nk", "bf16"};
  for (const GemmCase &c : {packed, live}) {
    EXPECT_NE(assemblyOf(c, "amx").find("tdpbf16ps"), std::string::npos);
    EXPECT_NE(assemblyOf(c, "amx").find("tileloaddt1"), std::string::npos);
    EXPECT_EQ(assemblyOf(c, "avx512bf16").find("tdpbf16ps"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Int8DotTest, testing::ValuesIn(expected),
                         [](const testing::TestParamInfo<Expected> &info) {
                           return std::string(info.param.target);
                         });

} // namespace
