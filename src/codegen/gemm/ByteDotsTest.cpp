//===- ByteDotsTest.cpp - which instructions multiply bytes ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionTiling.h"
#include "ir/Anabranch.h"
#include "mlir/Parser/Parser.h"
#include "support/codegen/ContractionCase.h"
#include "support/codegen/KernelLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

using namespace anabranch::codegen;

namespace {

/// The assembly of a product that is made for a target.
std::string assemblyOf(const ContractionCase &c, llvm::StringRef target) {
  llvm::SmallString<128> folder;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("byte-dots", folder));
  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module =
      mlir::parseSourceString<mlir::ModuleOp>(kernelText(c), &context);
  EXPECT_TRUE(module);
  CodegenOptions options;
  options.target = llvm::cantFail(TargetInfo::get(target));
  options.dumpDirectory = folder.str();
  auto library = KernelLibrary::load(*module, options);
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

class ByteDotsTest : public testing::TestWithParam<Expected> {};

TEST_P(ByteDotsTest, UsesTheInstructionOfTheTarget) {
  for (const ContractionCase &c :
       {ContractionCase{"live", 1, 40, 96, 256, "mk", "kn", "i8"},
        ContractionCase{"panels", 1, 40, 96, 256, "mk", "nk", "i8", false, 32,
                        4}}) {
    std::string text = assemblyOf(c, GetParam().target);
    bool found = false;
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(text).split(lines, '\n');
    for (llvm::StringRef line : lines) {
      // "{vex}" may stand before the name.
      found |= line.contains(std::string(GetParam().instruction) + "\t") &&
               line.contains(GetParam().registers);
      // These saturate.
      EXPECT_FALSE(line.contains("vpmaddubsw") || line.contains("vpdpbusds"));
    }
    EXPECT_TRUE(found) << c.name;
  }
}

TEST(ByteDots, TilesAreForManyRows) {
  ContractionCase few{"few", 1, 8, 96, 256, "mk", "nk", "i8", false, 32, 4};
  EXPECT_EQ(assemblyOf(few, "amx").find("tdpbssd"), std::string::npos);
  EXPECT_NE(assemblyOf(few, "amx").find("vpdpbusd"), std::string::npos);
}

TEST(ByteDots, PanelsGiveEachLoadedTileTwoProducts) {
  ContractionCase live{"live", 1, 64, 144, 256, "mk", "nk", "i8"};
  mlir::DialectRegistry registry;
  anabranch::ir::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module =
      mlir::parseSourceString<mlir::ModuleOp>(kernelText(live), &context);
  ASSERT_TRUE(module);
  std::string why;
  auto found =
      Contraction::find(*module->getOps<mlir::func::FuncOp>().begin(), why);
  ASSERT_TRUE(found) << why;
  auto widthFor = [&](const char *target) {
    auto panels = choosePanels(*found, llvm::cantFail(TargetInfo::get(target)));
    return panels ? panels->width : 0;
  };
  EXPECT_EQ(widthFor("avx512vnni"), 48);
  EXPECT_EQ(widthFor("amx") % 32, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, ByteDotsTest, testing::ValuesIn(expected),
                         [](const testing::TestParamInfo<Expected> &info) {
                           return std::string(info.param.target);
                         });

} // namespace
