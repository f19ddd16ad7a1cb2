//===- GemmBlockingTest.cpp - how products are cut up ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/BlockingCandidates.h"
#include "support/kernels/ParsedCase.h"

#include "gtest/gtest.h"

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

TEST(BlockingParameters, AreTextAndBack) {
  const char *text = "amx=0,rows=12,vectors=2,depth=32,rows_per_tile=24,"
                     "panels_per_tile=2,bytes_ahead=2048";
  auto parsed = BlockingParameters::parse(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->text(), text);
  EXPECT_EQ(parsed->count(), 7);
  ASSERT_TRUE(BlockingParameters::parse(""));
  EXPECT_EQ(BlockingParameters::parse("")->count(), 0);
  for (const char *wrong :
       {"rows", "rows=", "rows=8", "rows=a,vectors=2", "depth=-1", "width=3",
        "depth=1,depth=2", "depth=1,", ",", "depth=1 "})
    EXPECT_FALSE(BlockingParameters::parse(wrong)) << wrong;
}

/// The candidates differ, the first is the default, and the others are ordered
/// by their estimates.
TEST(BlockingCandidates, DifferAndAreOrdered) {
  for (const char *name : {"avx2", "avx512", "amx"})
    for (const char *type : {"f32", "bf16"})
      for (int64_t rows : {1, 16, 128, 512}) {
        SCOPED_TRACE(std::string(name) + " " + type + " " +
                     std::to_string(rows));
        ParsedCase c(GemmCase{"", 1, rows, 3072, 768, "mk", "nk", type});
        native::TargetInfo target = targetOf(name);
        auto found = listBlockings(*c.found, target, 12);
        ASSERT_LE(found.size(), 12U);
        ASSERT_GE(found.size(), 2U);
        EXPECT_EQ(found[0].parameters.count(), 0);
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_GT(found[i].cycles, 0);
          EXPECT_TRUE(i < 2 || found[i - 1].cycles <= found[i].cycles);
          EXPECT_TRUE(i == 0 || found[i].parameters.count() > 0);
        }
      }
}

TEST(BlockingCandidates, NeedKnownSizes) {
  ParsedCase c(GemmCase{"", 1, 64, 64, 64, "bmk", "bnk", "f32", true});
  EXPECT_EQ(listBlockings(*c.found, targetOf("avx512"), 12).size(), 1U);
}

/// The first-level cache holds a panel of a block of the depth. The
/// second-level cache holds the left operand, or a block of it with its sums.
TEST(GemmBlocking, AmxBlocksFitTheCaches) {
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get("sapphirerapids"));
  for (int64_t rows : {1, 40, 128, 512, 4096})
    for (int64_t depth : {64, 768, 3072, 14336})
      for (int64_t width : {0, 32}) {
        GemmCase c{"", 1, rows, 4096, depth, "mk", "nk", "bf16", false, width};
        c.kPack = width ? 2 : 1;
        GemmBlocking blocking = ParsedCase(c).blocking(target);
        if (!blocking.usesAmx)
          continue;
        std::string what =
            std::to_string(rows) + " rows, depth " + std::to_string(depth);
        if (rows > blocking.rows)
          EXPECT_LT(2 * blocking.depth * blocking.columns(),
                    target.model.l1Bytes)
              << what;
        int64_t part = blocking.depthOutside ? blocking.depth : depth;
        int64_t sums = blocking.depthOutside
                           ? 4 * blocking.columns() * blocking.panelsPerTile
                           : 0;
        int64_t tileRows = std::min(rows, blocking.rowsPerTile);
        EXPECT_LE(tileRows * (2 * part + sums), target.model.l2Bytes) << what;
        // A live weight is copied for many rows at once.
        if (!width)
          EXPECT_GE(blocking.rowsPerTile, std::min<int64_t>(rows, 128)) << what;
      }
}

/// Tiles of many rows have all panels if the caches hold them, and all workers
/// have rows.
TEST(GemmBlocking, AmxTilesHaveWholeRowsOfFewPanels) {
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get("sapphirerapids"));
  for (int64_t rows : {64, 512, 3136, 10000})
    for (int64_t depth : {64, 128}) {
      GemmCase c{"", 1, rows, 256, depth, "mk", "nk", "bf16", false, 32, 2};
      GemmBlocking blocking = ParsedCase(c).blocking(target);
      ASSERT_TRUE(blocking.usesAmx);
      bool hasAll = rows > 1000;
      EXPECT_EQ(blocking.panelsPerTile == 256 / 32, hasAll)
          << rows << " rows, depth " << depth;
      if (hasAll)
        EXPECT_GE(llvm::divideCeil(rows, blocking.rowsPerTile), 12u);
    }
}

const GemmCase linear{"linear", 1, 128, 3072, 768, "mk", "nk", "bf16"};

/// An instruction is chosen where it is faster, not just where it exists.
TEST(GemmBlocking, PairsAreMultipliedAsTheCpuDoesItFaster) {
  using Pairs = WordProduct::Pairs;
  ParsedCase parsed(linear);
  auto pairsOn = [&](const char *name) {
    return parsed.blocking(targetOf(name)).pairs;
  };
  for (const char *name : {"znver4", "znver5", "avx512bf16"})
    EXPECT_EQ(pairsOn(name), Pairs::Dot) << name;
  for (const char *name : {"avx512fp16", "icelake-server", "alderlake",
                           "znver3", "haswell", "x86-64-v4"})
    EXPECT_EQ(pairsOn(name), Pairs::Split) << name;
}

TEST(GemmBlocking, TheChoiceFollowsTheRates) {
  using Pairs = WordProduct::Pairs;
  ParsedCase parsed(linear);
  for (double rate : {8.0, 31.0, 33.0, 128.0}) {
    native::TargetInfo target = targetOf("avx512fp16");
    target.model.rates[int(native::Multiply::DotBF16)] = rate;
    target.model.rates[int(native::Multiply::FmaF32)] = 32;
    EXPECT_EQ(parsed.blocking(target).pairs,
              rate > 32 ? Pairs::Dot : Pairs::Split)
        << rate;
  }
}

/// Widening the right operand costs least in blocks of many rows, which read a
/// left operand that was widened before.
TEST(GemmBlocking, PairsThatAreSplitMeetManyRows) {
  GemmCase rows = linear;
  rows.m = 512;
  GemmBlocking wide = ParsedCase(rows).blocking(targetOf("avx512fp16"));
  EXPECT_EQ(wide.rows, 12);
  EXPECT_EQ(wide.vectors, 2);
  EXPECT_TRUE(wide.packLeft && wide.interleavesLeft);
  // The registers hold the accumulators, a vector in two parts and a left
  // element.
  GemmBlocking narrow = ParsedCase(rows).blocking(targetOf("haswell"));
  EXPECT_LE(narrow.vectors * (narrow.rows + 2) + 1, 16);
  EXPECT_TRUE(narrow.interleavesLeft);
}

/// Any number of columns is read in place, down to one vector.
TEST(GemmBlocking, SumsOfFewRowsHaveAnyColumns) {
  for (const char *name : {"znver4", "x86-64-v4", "haswell"})
    for (int64_t columns : {17, 5000, 3001})
      EXPECT_EQ(ParsedCase({"live", 1, 1, columns, 3000, "mk", "kn"})
                    .blocking(targetOf(name))
                    .right,
                GemmBlocking::Right::RowSums)
          << name << " " << columns;
}

/// Zen 4 runs 512 bits in halves, and 256 bits read memory faster there.
TEST(GemmBlocking, SumsFromMemoryAreAsWideAsUnits) {
  GemmCase large{"large", 1, 1, 4096, 4096, "mk", "kn"};
  EXPECT_EQ(ParsedCase(large).blocking(targetOf("znver4")).lanes, 8);
  EXPECT_EQ(ParsedCase(large).blocking(targetOf("sapphirerapids")).lanes, 16);
  GemmCase small{"small", 1, 1, 192, 192, "mk", "kn"};
  EXPECT_EQ(ParsedCase(small).blocking(targetOf("znver4")).lanes, 16);
}

/// Rows of some KiB are read as a whole, and enough tiles stay for workers.
TEST(GemmBlocking, SumsOfFewRowsFitTheFirstCache) {
  native::TargetInfo target = targetOf("x86-64-v4");
  target.model.l2Bytes = 1 << 20;
  for (int64_t rows : {1, 2, 4})
    for (int64_t columns : {192, 4096, 65536}) {
      if (rows > 2 && columns == 192)
        continue;
      ParsedCase parsed({"live", 1, rows, columns, 768, "mk", "kn"});
      GemmBlocking blocking = parsed.blocking(target);
      ASSERT_EQ(blocking.right, GemmBlocking::Right::RowSums);
      EXPECT_EQ(blocking.rows, rows);
      EXPECT_EQ(blocking.panelsPerTile, 1);
      EXPECT_LE(blocking.blockElements() * 4, 16384);
      EXPECT_GE(llvm::divideCeil(columns, blocking.columns()), 2);
    }
  // Four rows of what the second cache holds, and more rows, fill registers.
  for (GemmCase c : {GemmCase{"small", 1, 4, 192, 768, "mk", "kn"},
                     GemmCase{"more", 1, 6, 4096, 768, "mk", "kn"}})
    EXPECT_EQ(ParsedCase(c).blocking(target).right,
              GemmBlocking::Right::InPlace);
}

TEST(GemmBlocking, FewRowsReadLiveColumnsWhereTheyAre) {
  for (const char *name : {"avx512fp16", "znver4", "haswell"}) {
    GemmCase live{"live", 1, 1, 3072, 768, "mk", "kn", "bf16"};
    GemmBlocking blocking = ParsedCase(live).blocking(targetOf(name));
    EXPECT_EQ(blocking.right, GemmBlocking::Right::RowSums) << name;
    EXPECT_EQ(blocking.kPack, 1) << name;
  }
}

/// A copy makes pairs only of transposed squares and of panels.
TEST(GemmBlocking, ACopyOfColumnsIsWidenedOnItsWay) {
  GemmCase columns{"columns", 1, 64, 3072, 768, "mk", "kn", "bf16"};
  GemmCase depths{"depths", 1, 64, 3072, 768, "mk", "nk", "bf16"};
  for (const char *name : {"avx512fp16", "haswell"}) {
    EXPECT_EQ(ParsedCase(columns).blocking(targetOf(name)).kPack, 1) << name;
    EXPECT_EQ(ParsedCase(depths).blocking(targetOf(name)).kPack, 2) << name;
  }
  EXPECT_EQ(ParsedCase(columns).blocking(targetOf("znver4")).kPack, 2);
}

/// A core that multiplies many rows prefetches an operand that its second-level
/// cache cannot hold, whatever the size of that cache.
TEST(GemmBlocking, FetchesAheadOfWhatTheCacheCannotHold) {
  ParsedCase parsed({"f32", 1, 128, 3072, 768, "mk", "nk"});
  native::TargetInfo target = targetOf("x86-64-v4");
  constexpr int64_t rightBytes = 3072 * 768 * 4;
  target.model.l2Bytes = rightBytes - 1;
  EXPECT_GT(parsed.blocking(target).bytesAhead, 0);
  target.model.l2Bytes = rightBytes;
  EXPECT_EQ(parsed.blocking(target).bytesAhead, 0);
}

/// All products of one weight read one copy of it, whatever their number of
/// rows.
TEST(GemmBlocking, PanelsForAnyRowsAreAlike) {
  for (int64_t rows : {1, 2, 7, 16, 32, 48, 512}) {
    ParsedCase parsed({"f32", 1, rows, 576, 256, "mk", "nk"});
    for (const char *target : {"x86-64-v3", "x86-64-v4"}) {
      ParsedCase first({"f32", 1, 1, 576, 256, "mk", "nk"});
      auto wanted =
          choosePanels(*first.found, targetOf(target), PanelsFor::AnyRows);
      auto panels =
          choosePanels(*parsed.found, targetOf(target), PanelsFor::AnyRows);
      ASSERT_TRUE(wanted && panels);
      EXPECT_EQ(panels->width, wanted->width) << target << rows;
    }
  }
}

/// A loaded register of either operand is used for two products.
TEST(GemmBlocking, PanelsGiveEachAmxRegisterTwoProducts) {
  ParsedCase live({"live", 1, 64, 144, 256, "mk", "nk", "i8"});
  auto widthFor = [&](const char *target) {
    auto panels = choosePanels(*live.found, targetOf(target));
    return panels ? panels->width : 0;
  };
  EXPECT_EQ(widthFor("avx512vnni"), 48);
  EXPECT_EQ(widthFor("amx") % 32, 0);
}

} // namespace
