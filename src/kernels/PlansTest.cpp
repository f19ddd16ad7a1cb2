//===- PlansTest.cpp - which plan a product gets, and why -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/Plans.h"

#include "ir/Explain.h"
#include "kernels/Panels.h"
#include "kernels/Tuning.h"
#include "mlir/IR/Diagnostics.h"
#include "support/kernels/ParsedCase.h"

#include "llvm/ADT/StringExtras.h"

#include "gtest/gtest.h"

#include <set>

using namespace anabranch;
using namespace anabranch::kernels;

namespace {

TEST(BlockingParameters, AreTextAndBack) {
  const char *text = "plan=vector_blocks,rows=12,vectors=2,depth=32,"
                     "rows_per_tile=24,panels_per_tile=2,bytes_ahead=2048";
  auto parsed = BlockingParameters::parse(text);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->text(), text);
  EXPECT_EQ(parsed->count(), 6);
  EXPECT_EQ(parsed->plan, "vector_blocks");
  ASSERT_TRUE(BlockingParameters::parse(""));
  EXPECT_EQ(BlockingParameters::parse("")->count(), 0);
  for (const char *wrong :
       {"rows", "rows=", "rows=8", "rows=a,vectors=2", "depth=-1", "width=3",
        "depth=1,depth=2", "depth=1,", ",", "depth=1 ", "plan=", "plan=A",
        "plan=row_dots,plan=row_sums"})
    EXPECT_FALSE(BlockingParameters::parse(wrong)) << wrong;
}

/// The candidates name their plans and differ, the first is the default, and
/// the others are ordered by their estimates.
TEST(TunableKernels, HaveCandidatesOfAllPlans) {
  for (const char *name : {"avx2", "avx512", "amx"})
    for (const char *type : {"f32", "bf16"})
      for (int64_t rows : {1, 16, 128, 512}) {
        SCOPED_TRACE(std::string(name) + " " + type + " " +
                     std::to_string(rows));
        ParsedCase c(GemmCase{"", 1, rows, 3072, 768, "mk", "nk", type});
        auto kernels =
            listTunableKernels(c.parsed.module(), targetOf(name), 12);
        ASSERT_EQ(kernels.size(), 1U);
        const auto &found = kernels[0].candidates;
        ASSERT_LE(found.size(), 12U);
        ASSERT_GE(found.size(), 2U);
        EXPECT_EQ(found[0].parameters, "");
        std::set<std::string> texts;
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(texts.insert(found[i].parameters).second);
          EXPECT_GT(found[i].cycles, 0);
          EXPECT_TRUE(i < 2 || found[i - 1].cycles <= found[i].cycles);
          auto given = BlockingParameters::parse(found[i].parameters);
          ASSERT_TRUE(given);
          EXPECT_EQ(given->plan.empty(), i == 0);
        }
      }
}

TEST(TunableKernels, HaveKnownSizes) {
  ParsedCase c(GemmCase{"", 1, 64, 64, 64, "bmk", "bnk", "f32", true});
  EXPECT_TRUE(
      listTunableKernels(c.parsed.module(), targetOf("avx512"), 12).empty());
}

/// The text of a row's refusal; empty if it proposes a plan.
std::string refusalOf(const char *row, const GemmCase &c, const char *target) {
  ParsedCase parsed(c);
  native::TargetInfo info = targetOf(target);
  for (const Considered &one : considerPlans(parsed.parsed.function(), info))
    if (one.row->name == row)
      return one.proposal.refusal;
  return "there is no such row";
}

TEST(ProductPlans, SayWhyTheyRefuse) {
  GemmCase depths{"", 1, 12, 3072, 768, "mk", "nk"};
  GemmCase columns{"", 1, 12, 3072, 768, "mk", "kn"};
  EXPECT_EQ(refusalOf("row_dots", depths, "avx512"),
            "it has 12 rows; more than 8 are cheaper in blocks");
  EXPECT_EQ(refusalOf("row_dots", columns, "avx512"),
            "depths of its right operand are no neighbours in memory");
  EXPECT_EQ(refusalOf("row_sums", columns, "avx512"),
            "it has 12 rows; more than 4 are cheaper in blocks");
  EXPECT_EQ(refusalOf("row_sums", depths, "avx512"),
            "columns of its right operand are no neighbours in memory");
  EXPECT_EQ(refusalOf("tile_blocks", depths, "avx512"),
            "the target has no tile registers for its operands");
  EXPECT_EQ(refusalOf("tile_blocks", depths, "amx").substr(0, 32),
            "tile registers would take about ");
  EXPECT_EQ(refusalOf("vector_blocks", depths, "amx"), "");
}

TEST(ProductPlans, AreTakenByNameUnlessTheyRefuse) {
  GemmCase c{"", 1, 4, 3072, 768, "mk", "nk"};
  auto nameOf = [&](const char *text) {
    c.blocking = text;
    return ParsedCase(c).plan(targetOf("avx512")).name().str();
  };
  EXPECT_EQ(nameOf(""), "row_dots");
  EXPECT_EQ(nameOf("plan=vector_blocks,rows=8,vectors=3"), "vector_blocks");
  EXPECT_EQ(nameOf("plan=row_sums"), "row_dots");
  EXPECT_EQ(nameOf("plan=no_such_plan"), "row_dots");
  // Parameters of one plan are none of another.
  c.blocking = "plan=vector_blocks,rows=6,vectors=4,rows_per_tile=6";
  EXPECT_EQ(ParsedCase(c).plan(targetOf("avx512")).layout.tiling.rows, 6);
}

/// Each plan that does not make the kernel has its reason, once for plans that
/// share it.
TEST(Plans, AreExplained) {
  ParsedCase c(GemmCase{"", 1, 4, 3072, 768, "mk", "nk"});
  mlir::func::FuncOp kernel = c.parsed.function();
  ir::setExplaining(kernel.getContext(), true);
  std::vector<std::string> said;
  mlir::ScopedDiagnosticHandler handler(
      kernel.getContext(),
      [&](mlir::Diagnostic &remark) { said.push_back(remark.str()); });
  native::TargetInfo target = targetOf("avx512");
  auto considered = considerPlans(kernel, target);
  explainPlans(kernel, considered, *choosePlan(considered));
  std::string all = llvm::join(said, "\n");
  for (const char *part :
       {"not made by vector_blocks (about ", " cycles): row_dots costs less",
        "not made by loops: it makes kernels that no other plan makes",
        "not made by tile_blocks: the target has no tile registers",
        "not made by streamed_attention or packed_attention or "})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
}

/// The first-level cache holds a panel of a block of the depth. The
/// second-level cache holds the left operand, or a block of it with its sums.
TEST(ProductPlans, AmxBlocksFitTheCaches) {
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get("sapphirerapids"));
  for (int64_t rows : {1, 40, 128, 512, 4096})
    for (int64_t depth : {64, 768, 3072, 14336})
      for (int64_t width : {0, 32}) {
        GemmCase c{"", 1, rows, 4096, depth, "mk", "nk", "bf16", false, width};
        c.kPack = width ? 2 : 1;
        ChosenProduct plan = ParsedCase(c).plan(target);
        if (!plan.usesTileRegisters())
          continue;
        const Tiling &tiling = plan.layout.tiling;
        bool depthOutside = plan.layout.steps.depthOutside;
        std::string what =
            std::to_string(rows) + " rows, depth " + std::to_string(depth);
        if (rows > tiling.rows)
          EXPECT_LT(2 * tiling.depth * tiling.columns(), target.model.l1Bytes)
              << what;
        int64_t part = depthOutside ? tiling.depth : depth;
        int64_t sums =
            depthOutside ? 4 * tiling.columns() * tiling.panelsPerTile : 0;
        int64_t tileRows = std::min(rows, tiling.rowsPerTile);
        EXPECT_LE(tileRows * (2 * part + sums), target.model.l2Bytes) << what;
        // A live weight is copied for many rows at once.
        if (!width)
          EXPECT_GE(tiling.rowsPerTile, std::min<int64_t>(rows, 128)) << what;
      }
}

/// Tiles of many rows have all panels if the caches hold them, and all workers
/// have rows.
TEST(ProductPlans, AmxTilesHaveWholeRowsOfFewPanels) {
  native::TargetInfo target =
      llvm::cantFail(native::TargetInfo::get("sapphirerapids"));
  for (int64_t rows : {64, 512, 3136, 10000})
    for (int64_t depth : {64, 128}) {
      GemmCase c{"", 1, rows, 256, depth, "mk", "nk", "bf16", false, 32, 2};
      ChosenProduct plan = ParsedCase(c).plan(target);
      ASSERT_TRUE(plan.usesTileRegisters());
      const Tiling &tiling = plan.layout.tiling;
      bool hasAll = rows > 1000;
      EXPECT_EQ(tiling.panelsPerTile == 256 / 32, hasAll)
          << rows << " rows, depth " << depth;
      if (hasAll)
        EXPECT_GE(llvm::divideCeil(rows, tiling.rowsPerTile), 12u);
    }
}

const GemmCase linear{"linear", 1, 128, 3072, 768, "mk", "nk", "bf16"};

/// An instruction is chosen where it is faster, not just where it exists.
TEST(ProductPlans, PairsAreMultipliedAsTheCpuDoesItFaster) {
  using Pairs = WordProduct::Pairs;
  ParsedCase parsed(linear);
  auto pairsOn = [&](const char *name) {
    return parsed.plan(targetOf(name)).layout.word.product.pairs;
  };
  for (const char *name : {"znver4", "znver5", "avx512bf16"})
    EXPECT_EQ(pairsOn(name), Pairs::Dot) << name;
  for (const char *name : {"avx512fp16", "icelake-server", "alderlake",
                           "znver3", "haswell", "x86-64-v4"})
    EXPECT_EQ(pairsOn(name), Pairs::Split) << name;
}

TEST(ProductPlans, TheChoiceFollowsTheRates) {
  using Pairs = WordProduct::Pairs;
  ParsedCase parsed(linear);
  for (double rate : {8.0, 31.0, 33.0, 128.0}) {
    native::TargetInfo target = targetOf("avx512fp16");
    target.model.rates[int(native::Multiply::DotBF16)] = rate;
    target.model.rates[int(native::Multiply::FmaF32)] = 32;
    EXPECT_EQ(parsed.plan(target).layout.word.product.pairs,
              rate > 32 ? Pairs::Dot : Pairs::Split)
        << rate;
  }
}

/// Widening the right operand costs least in blocks of many rows, which read a
/// left operand that was widened before.
TEST(ProductPlans, PairsThatAreSplitMeetManyRows) {
  GemmCase rows = linear;
  rows.m = 512;
  ProductLayout wide = ParsedCase(rows).plan(targetOf("avx512fp16")).layout;
  EXPECT_EQ(wide.tiling.rows, 12);
  EXPECT_EQ(wide.tiling.vectors, 2);
  EXPECT_TRUE(wide.left.isInterleaved());
  // The registers hold the accumulators, a vector in two parts and a left
  // element.
  ProductLayout narrow = ParsedCase(rows).plan(targetOf("haswell")).layout;
  EXPECT_LE(narrow.tiling.vectors * (narrow.tiling.rows + 2) + 1, 16);
  EXPECT_TRUE(narrow.left.isInterleaved());
}

/// A copy of wider elements keeps the rows where blocks can read them from one
/// address. Then they are not in one set of a cache.
TEST(ProductPlans, CopiedRowsLieWhereOneAddressReachesThem) {
  GemmCase rows{"rows", 1, 128, 256, 512, "mk", "kn", "f16"};
  for (const char *name : {"znver5", "x86-64-v4", "haswell"}) {
    LeftAccess left = ParsedCase(rows).plan(targetOf(name)).layout.left;
    EXPECT_EQ(left.form, LeftAccess::Form::Rows) << name;
    EXPECT_GE(left.rowElements, rows.k) << name;
    EXPECT_EQ(left.rowElements % 32, 16) << name;
  }
  LeftAccess left = ParsedCase(rows).plan(targetOf("neoverse-v1")).layout.left;
  EXPECT_EQ(left.rowElements, 0);
}

/// An odd number of panels is no reason for one of two workers to wait.
TEST(ProductPlans, WorkersShareTheRowsOfFewPanels) {
  for (auto [rows, columns] : {std::pair{196, 1088}, {784, 192}}) {
    GemmCase c{"", 1, rows, columns, 512, "mk", "nk", "f32", false, 64};
    for (const char *name : {"znver5", "x86-64-v4"}) {
      Tiling tiling = ParsedCase(c).plan(targetOf(name)).layout.tiling;
      int64_t panels = llvm::divideCeil(columns, tiling.columns());
      int64_t tiles = llvm::divideCeil(rows, tiling.rowsPerTile) *
                      llvm::divideCeil(panels, tiling.panelsPerTile);
      EXPECT_LT(double(llvm::alignTo(tiles, 2)), 1.04 * double(tiles))
          << name << ", " << tiles << " tiles";
    }
  }
}

/// Any number of columns is read in place, down to one vector.
TEST(ProductPlans, SumsOfFewRowsHaveAnyColumns) {
  for (const char *name : {"znver4", "x86-64-v4", "haswell"})
    for (int64_t columns : {17, 5000, 3001})
      EXPECT_EQ(ParsedCase({"live", 1, 1, columns, 3000, "mk", "kn"})
                    .plan(targetOf(name))
                    .name(),
                "row_sums")
          << name << " " << columns;
}

ProductLayout layoutOn(const GemmCase &c, const char *target) {
  return ParsedCase(c).plan(targetOf(target)).layout;
}

/// Zen 4 runs 512 bits in halves, and 256 bits read memory faster there.
TEST(ProductPlans, SumsFromMemoryAreAsWideAsUnits) {
  GemmCase large{"large", 1, 1, 4096, 4096, "mk", "kn"};
  EXPECT_EQ(layoutOn(large, "znver4").tiling.lanes, 8);
  EXPECT_EQ(layoutOn(large, "sapphirerapids").tiling.lanes, 16);
  GemmCase small{"small", 1, 1, 192, 192, "mk", "kn"};
  EXPECT_EQ(layoutOn(small, "znver4").tiling.lanes, 16);
}

/// Rows of some KiB are read as a whole, and enough tiles stay for workers.
TEST(ProductPlans, SumsOfFewRowsFitTheFirstCache) {
  native::TargetInfo target = targetOf("x86-64-v4");
  target.model.l2Bytes = 1 << 20;
  for (int64_t rows : {1, 2, 4})
    for (int64_t columns : {192, 4096, 65536}) {
      if (rows > 2 && columns == 192)
        continue;
      ParsedCase parsed({"live", 1, rows, columns, 768, "mk", "kn"});
      ChosenProduct plan = parsed.plan(target);
      ASSERT_EQ(plan.name(), "row_sums");
      const Tiling &tiling = plan.layout.tiling;
      EXPECT_EQ(tiling.rows, rows);
      EXPECT_EQ(tiling.panelsPerTile, 1);
      EXPECT_LE(tiling.blockElements() * 4, 16384);
      EXPECT_GE(llvm::divideCeil(columns, tiling.columns()), 2);
    }
  // Four rows of what the second cache holds, and more rows, fill registers.
  for (GemmCase c : {GemmCase{"small", 1, 4, 192, 768, "mk", "kn"},
                     GemmCase{"more", 1, 6, 4096, 768, "mk", "kn"}})
    EXPECT_EQ(ParsedCase(c).plan(target).layout.right.form,
              RightAccess::Form::InPlace);
}

/// Where an instruction takes unsigned bytes, some panels of a tile share the
/// zero-point compensation of its rows, unless workers would be idle.
TEST(ProductPlans, PanelsShareCompensation) {
  auto panels = [](int64_t columns, const char *target) {
    ParsedCase parsed({"bytes", 1, 512, columns, 768, "mk", "nk", "i8"});
    return parsed.plan(targetOf(target)).layout.tiling.panelsPerTile;
  };
  EXPECT_EQ(panels(4096, "avx512vnni"), 4);
  EXPECT_EQ(panels(96, "avx512vnni"), 1);
  EXPECT_EQ(panels(4096, "avxvnniint8"), 1); // its bytes are signed
}

TEST(ProductPlans, FewRowsReadLiveColumnsWhereTheyAre) {
  for (const char *name : {"avx512fp16", "znver4", "haswell"}) {
    GemmCase live{"live", 1, 1, 3072, 768, "mk", "kn", "bf16"};
    ChosenProduct plan = ParsedCase(live).plan(targetOf(name));
    EXPECT_EQ(plan.name(), "row_sums") << name;
    EXPECT_EQ(plan.layout.word.kPack, 1) << name;
  }
}

/// A copy makes pairs only of transposed squares and of panels.
TEST(ProductPlans, ACopyOfColumnsIsWidenedOnItsWay) {
  GemmCase columns{"columns", 1, 64, 3072, 768, "mk", "kn", "bf16"};
  GemmCase depths{"depths", 1, 64, 3072, 768, "mk", "nk", "bf16"};
  for (const char *name : {"avx512fp16", "haswell"}) {
    EXPECT_EQ(layoutOn(columns, name).word.kPack, 1) << name;
    EXPECT_EQ(layoutOn(depths, name).word.kPack, 2) << name;
  }
  EXPECT_EQ(layoutOn(columns, "znver4").word.kPack, 2);
}

/// A core that multiplies many rows prefetches an operand that its second-level
/// cache cannot hold, whatever the size of that cache.
TEST(ProductPlans, FetchesAheadOfWhatTheCacheCannotHold) {
  ParsedCase parsed({"f32", 1, 128, 3072, 768, "mk", "nk"});
  native::TargetInfo target = targetOf("x86-64-v4");
  constexpr int64_t rightBytes = 3072 * 768 * 4;
  target.model.l2Bytes = rightBytes - 1;
  EXPECT_GT(VectorBlocking::choose(*parsed.found, target).bytesAhead, 0);
  target.model.l2Bytes = rightBytes;
  EXPECT_EQ(VectorBlocking::choose(*parsed.found, target).bytesAhead, 0);
}

/// All products of one weight read one copy of it, whatever their number of
/// rows.
TEST(ProductPlans, PanelsForAnyRowsAreAlike) {
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

/// If only a call knows the rows, batches of decoding fill whole blocks.
TEST(ProductPlans, UnknownRowsTakeBlocksThatBatchesFill) {
  for (const char *type : {"f32", "bf16"})
    for (const char *target : {"x86-64-v3", "x86-64-v4", "znver4", "znver5"}) {
      ParsedCase c({"", 1, 37, 100, 70, "bmk", "bnk", type, true});
      int64_t rows =
          VectorBlocking::choose(*c.found, targetOf(target)).layout.tiling.rows;
      for (int64_t batch : {8, 16, 64})
        EXPECT_EQ(batch % rows, 0) << target << type << rows;
    }
}

/// A loaded register of either operand is used for two products.
TEST(ProductPlans, PanelsGiveEachAmxRegisterTwoProducts) {
  ParsedCase live({"live", 1, 64, 144, 256, "mk", "nk", "i8"});
  auto widthFor = [&](const char *target) {
    auto panels = choosePanels(*live.found, targetOf(target));
    return panels ? panels->width : 0;
  };
  EXPECT_EQ(widthFor("avx512vnni"), 48);
  EXPECT_EQ(widthFor("amx") % 32, 0);
}

} // namespace
