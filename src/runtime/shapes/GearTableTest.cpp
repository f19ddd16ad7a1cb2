//===- GearTableTest.cpp - which program fits the sizes of a call ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/runtime/TestSupport.h"

#include <atomic>
#include <thread>

namespace anabranch::testing {

namespace {

/// A program of one input, for `rows` rows or, if 0, for any number.
ProgramMaker programFor(int64_t rows) {
  ProgramMaker m;
  Size size = rows ? fixed(rows) : slot(0);
  int x = m.input("x", {size});
  if (!rows) {
    m.p.slots = 1;
    m.p.slot_sources.emplace_back(0, 0, 0);
  }
  // Static programs add one and the symbolic one doubles, so that results tell
  // them apart.
  m.launch(rows ? "increment" : "twice", {x}, {m.output({size})}, size);
  return m;
}

ProgramMaker geared(const std::vector<int64_t> &rows) {
  ProgramMaker m = programFor(rows.front());
  for (size_t i = 1; i < rows.size(); ++i)
    m.p.variants.push_back(
        std::make_unique<ProgramT>(std::move(programFor(rows[i]).p)));
  return m;
}

class GearTable : public ::testing::Test, protected PackageFolder {
protected:
  /// The first element of the result for `rows` threes; negative after an
  /// error.
  static float run(const Executable &executable, size_t rows,
                   std::string *message = nullptr) {
    TensorArgument x(std::vector<float>(rows, 3));
    InputValue input = x.value();
    OutputValue output;
    VectorAllocator results;
    Status s = executable.run(&input, 1, &output, 1, results);
    if (!s.ok() && message)
      *message = s.message();
    return s.ok() && results.memory[0].size() == rows ? results.memory[0][0]
                                                      : -1;
  }
};

TEST_F(GearTable, ChoosesBySize) {
  auto executable = open(geared({2, 4, 100}));
  ASSERT_TRUE(executable);
  EXPECT_EQ(executable->programCount(), 3u);
  EXPECT_EQ(executable->inputs()[0].shape, std::vector<int64_t>{-1});
  for (size_t rows : {2, 4, 100, 2})
    EXPECT_EQ(run(*executable, rows), 4);
  std::string message;
  EXPECT_EQ(run(*executable, 3, &message), -1);
  EXPECT_EQ(message, "no program was compiled for the sizes [3] of x[0]; there "
                     "are programs for [2], [4], [100]");
}

/// A program of two launches with a tensor between them.
ProgramMaker chainFor(int64_t rows) {
  ProgramMaker m;
  Size size = fixed(rows);
  int x = m.input("x", {size});
  int between = m.arena(0, {size}, 4 * rows);
  m.launch("increment", {x}, {between}, size);
  m.launch("twice", {between}, {m.output({size})}, size);
  return m;
}

TEST_F(GearTable, ProgramsShareOneArena) {
  ProgramMaker maker = chainFor(4000);
  maker.p.variants.push_back(
      std::make_unique<ProgramT>(std::move(chainFor(1000).p)));
  auto executable = open(maker);
  ASSERT_TRUE(executable);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(run(*executable, 1000), 8);
    EXPECT_EQ(run(*executable, 4000), 8);
  }
  EXPECT_GE(executable->cachedBytes(), 16000u);
  EXPECT_LT(executable->cachedBytes(), 20000u);
  executable->trim();
  EXPECT_EQ(executable->cachedBytes(), 0u);
  EXPECT_EQ(run(*executable, 1000), 8);
}

TEST_F(GearTable, ThreadsRunProgramsOfOneArena) {
  ProgramMaker maker = chainFor(4000);
  for (int64_t rows : {1000, 64, 3000})
    maker.p.variants.push_back(
        std::make_unique<ProgramT>(std::move(chainFor(rows).p)));
  auto executable = open(maker);
  ASSERT_TRUE(executable);
  expectOnThreads(6, [&](unsigned t) -> std::string {
    const size_t sizes[] = {4000, 1000, 64, 3000};
    for (unsigned call = 0; call < 200; ++call)
      if (float first = run(*executable, sizes[(call + t) % 4]); first != 8)
        return std::to_string(first) + " is not 8";
    return "";
  });
}

TEST_F(GearTable, AnArenaThatWasLargeOnceGoes) {
  ProgramMaker maker = chainFor(30 << 20);
  maker.p.variants.push_back(
      std::make_unique<ProgramT>(std::move(chainFor(64).p)));
  auto executable = open(maker);
  ASSERT_TRUE(executable);
  EXPECT_EQ(run(*executable, 30 << 20), 8);
  EXPECT_EQ(run(*executable, 64), 8);
  EXPECT_GT(executable->cachedBytes(), size_t(100) << 20);
  for (int call = 0; call < 70; ++call)
    EXPECT_EQ(run(*executable, 64), 8);
  EXPECT_LT(executable->cachedBytes(), size_t(1) << 20);
}

TEST_F(GearTable, SaysWhatIsWrongWithArguments) {
  auto executable = open(geared({2, 4}));
  ASSERT_TRUE(executable);
  InputValue scalar;
  scalar.kind = InputValue::Kind::Scalar;
  OutputValue output;
  VectorAllocator results;
  EXPECT_EQ(executable->run(&scalar, 1, &output, 1, results).code(),
            StatusCode::TypeError);
  EXPECT_EQ(executable->run(&scalar, 0, &output, 1, results).code(),
            StatusCode::TypeError);
  TensorArgument flat({1}, {});
  InputValue rankless = flat.value();
  EXPECT_EQ(executable->run(&rankless, 1, &output, 1, results).code(),
            StatusCode::InvalidArgument);
}

TEST_F(GearTable, TakesProgramsLater) {
  auto symbolic = open(programFor(0)), five = open(programFor(5));
  ASSERT_TRUE(symbolic && five);
  EXPECT_EQ(run(*symbolic, 5), 6);
  ASSERT_TRUE(symbolic->add(five).ok());
  EXPECT_EQ(run(*symbolic, 5), 4);
  EXPECT_EQ(run(*symbolic, 7), 6);
  EXPECT_GT(five->lastUse(), 0u);
  symbolic->remove(*five);
  EXPECT_EQ(run(*symbolic, 5), 6);
}

TEST_F(GearTable, RefusesProgramsOfAnotherGraph) {
  ProgramMaker m;
  m.launch("add", {m.input("x", {fixed(5)}), m.input("y", {fixed(5)})},
           {m.output({fixed(5)})}, fixed(5));
  auto symbolic = open(programFor(0)), other = open(m);
  ASSERT_TRUE(symbolic && other);
  EXPECT_EQ(symbolic->add(other).code(), StatusCode::InvalidArgument);
}

/// Two threads call while a third one changes the table all the time.
TEST_F(GearTable, ChangesUnderRunningCalls) {
  auto symbolic = open(programFor(0));
  std::vector<std::shared_ptr<const Executable>> others;
  for (int64_t rows = 1; rows <= 4; ++rows)
    others.push_back(open(programFor(rows)));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t)
    callers.emplace_back([&, t] {
      for (size_t rows = 1 + t; !stop; rows = rows % 6 + 1) {
        float result = run(*symbolic, rows);
        wrong += result != 4 && result != 6;
      }
    });
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(symbolic->add(others[i % 4]).ok());
    if (i >= 2)
      symbolic->remove(*others[(i - 2) % 4]);
  }
  stop = true;
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(GearTableFormat, RefusesVariantsThatDoNotFit) {
  TemporaryFolder folder;
  ProgramMaker m = programFor(2);
  ProgramMaker other;
  other.launch("add",
               {other.input("x", {fixed(5)}), other.input("y", {fixed(5)})},
               {other.output({fixed(5)})}, fixed(5));
  m.p.variants.push_back(std::make_unique<ProgramT>(std::move(other.p)));
  Status written = writeTestPackage(folder.path + "/p", m);
  EXPECT_NE(written.message().find("a variant does not fit it"),
            std::string::npos);
}

} // namespace
} // namespace anabranch::testing
