//===- ContentsTest.cpp - files that entries of the cache share -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Store.h"

#include "support/process/TemporaryFolder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace anabranch;
using namespace anabranch::cache;
namespace fs = std::filesystem;

namespace {

constexpr size_t large = size_t(1) << 20;

class ContentsTest : public ::testing::Test {
protected:
  void SetUp() override { fs::create_directory(root); }

  /// A key that begins with the letter, so its shelf is the letter's.
  static std::string keyOf(char letter) { return std::string(64, letter); }
  Slot slot(char letter, const std::string &kind = "packages") const {
    return Store(root).slot(kind, keyOf(letter));
  }
  std::string pathOf(char fill) const { return folder.path + "/" + fill; }
  /// A file outside of the cache.
  std::string source(char fill, size_t size = large) const {
    std::ofstream(pathOf(fill)) << std::string(size, fill);
    return pathOf(fill);
  }
  /// Publishes an entry whose file `weights` is a copy of `path`.
  static ::testing::AssertionResult publish(const Slot &into,
                                            const std::string &path) {
    Expected<Lock> lock = into.lock(Lock::Kind::Exclusive, 10);
    if (!lock || !lock->exclusive())
      return ::testing::AssertionFailure() << "no lock";
    Status status =
        into.publish(*lock, {{"weights", path, ""}, {"code", "", "c"}}, "text");
    return status.ok() ? ::testing::AssertionSuccess()
                       : ::testing::AssertionFailure() << status.message();
  }
  static ino_t inodeOf(const Slot &slot) {
    struct stat info{};
    ::stat((slot.folder() + "/weights").c_str(), &info);
    return info.st_ino;
  }
  static std::string weightsOf(const Slot &slot) {
    std::ostringstream bytes;
    bytes << std::ifstream(slot.folder() + "/weights").rdbuf();
    return bytes.str();
  }
  static bool reads(const Slot &slot) {
    auto found = slot.read();
    return found && found->has_value();
  }
  size_t kept() const {
    std::error_code none;
    auto files = fs::directory_iterator(root + "/contents", none);
    return size_t(std::distance(begin(files), end(files)));
  }

  anabranch::testing::TemporaryFolder folder;
  const std::string root = folder.path + "/root";
};

TEST_F(ContentsTest, EntriesOfAllKindsHaveOneFile) {
  std::string weights = source('w');
  ASSERT_TRUE(publish(slot('a'), weights));
  ASSERT_TRUE(publish(slot('b'), weights));
  ASSERT_TRUE(publish(slot('b', "functions"), weights));
  EXPECT_EQ(inodeOf(slot('a')), inodeOf(slot('b')));
  EXPECT_EQ(inodeOf(slot('a')), inodeOf(slot('b', "functions")));
  EXPECT_EQ(kept(), 1u);
  EXPECT_TRUE(reads(slot('b')));
  ASSERT_TRUE(publish(slot('c'), source('v')));
  EXPECT_NE(inodeOf(slot('a')), inodeOf(slot('c')));
  EXPECT_TRUE(reads(slot('c')));
}

TEST_F(ContentsTest, SmallFilesAreCopied) {
  std::string weights = source('w', large - 1);
  ASSERT_TRUE(publish(slot('a'), weights));
  ASSERT_TRUE(publish(slot('b'), weights));
  EXPECT_NE(inodeOf(slot('a')), inodeOf(slot('b')));
  EXPECT_EQ(kept(), 0u);
}

TEST_F(ContentsTest, AnEntryOutsideOfAStoreSharesNothing) {
  EXPECT_EQ(contentsOf(root + "/Model/method"), "");
  EXPECT_EQ(contentsOf("/"), "");
  EXPECT_EQ(contentsOf(""), "");
  EXPECT_EQ(contentsOf(slot('a').folder() + "/"), root + "/contents");
}

TEST_F(ContentsTest, SharedBytesCountOnce) {
  std::string weights = source('w');
  ASSERT_TRUE(publish(slot('a'), weights));
  ASSERT_TRUE(publish(slot('b'), weights));
  std::vector<CacheEntryInfo> list = Store(root).list();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_GT(list[0].bytes, large);
  EXPECT_GT(list[1].bytes, large);
  EXPECT_EQ(list[0].added, list[0].bytes);
  EXPECT_EQ(list[1].added, list[1].bytes - large);
  uint64_t both = list[0].added + list[1].added;
  CachePruned pruned = Store(root).prune(both);
  EXPECT_EQ(pruned.entries, 0u);
  EXPECT_EQ(pruned.kept, both);
  pruned = Store(root).prune(both - 1);
  EXPECT_EQ(pruned.entries, 1u);
  EXPECT_EQ(pruned.bytes, list[0].bytes - large);
  EXPECT_EQ(kept(), 1u);
  pruned = Store(root).prune(0);
  EXPECT_EQ(pruned.bytes, list[1].bytes);
  EXPECT_EQ(pruned.kept, 0u);
  EXPECT_EQ(kept(), 0u);
}

TEST_F(ContentsTest, ADamagedFileIsNotLinkedAgain) {
  std::string weights = source('w');
  ASSERT_TRUE(publish(slot('a'), weights));
  ASSERT_TRUE(publish(slot('b'), weights));
  std::fstream(slot('a').folder() + "/weights").put('X');
  EXPECT_FALSE(reads(slot('a')));
  EXPECT_FALSE(reads(slot('b')));
  ASSERT_TRUE(publish(slot('a'), weights));
  EXPECT_TRUE(reads(slot('a')));
  ASSERT_TRUE(publish(slot('b'), weights));
  EXPECT_TRUE(reads(slot('b')));
  EXPECT_EQ(inodeOf(slot('a')), inodeOf(slot('b')));
  EXPECT_EQ(kept(), 1u);
}

TEST_F(ContentsTest, AFileOfAnotherModeIsNotLinked) {
  std::string weights = source('w');
  ASSERT_TRUE(publish(slot('a'), weights));
  ::chmod((slot('a').folder() + "/weights").c_str(), 0640);
  ASSERT_TRUE(publish(slot('b'), weights));
  EXPECT_NE(inodeOf(slot('a')), inodeOf(slot('b')));
  EXPECT_TRUE(reads(slot('b')));
}

TEST_F(ContentsTest, WithoutAFolderEntriesAreCopies) {
  std::ofstream(root + "/contents") << "no folder";
  std::string weights = source('w');
  ASSERT_TRUE(publish(slot('a'), weights));
  ASSERT_TRUE(publish(slot('b'), weights));
  EXPECT_NE(inodeOf(slot('a')), inodeOf(slot('b')));
  EXPECT_TRUE(reads(slot('a')) && reads(slot('b')));
  EXPECT_EQ(Store(root).prune(0).entries, 2u);
}

/// Entries come, go, are damaged and pruned in any order. What is read is what
/// was published, and a pruned root holds what its entries hold.
TEST_F(ContentsTest, AnyOrderLeavesWholeEntries) {
  std::mt19937 random(11);
  std::map<char, char> published; // entry to fill
  for (char fill = 'p'; fill < 's'; ++fill)
    source(fill);
  for (int step = 0; step < 150; ++step) {
    char letter = char('a' + random() % 6), fill = char('p' + random() % 3);
    switch (random() % 6) {
    case 0: {
      Slot doomed = slot(letter);
      Expected<Lock> lock = doomed.lock(Lock::Kind::Exclusive, 1);
      ASSERT_TRUE(lock && doomed.remove(*lock).ok());
      published.erase(letter);
      break;
    }
    case 1:
      Store(root).prune(uint64_t(1) << 40);
      EXPECT_LE(kept(), published.size());
      break;
    case 2: // all that share the file are broken, and published again
      if (published.count(letter)) {
        std::fstream(slot(letter).folder() + "/weights").put('X');
        for (auto [other, with] : published)
          if (!reads(slot(other)))
            ASSERT_TRUE(publish(slot(other), pathOf(with)));
      }
      break;
    default:
      ASSERT_TRUE(publish(slot(letter), pathOf(fill)));
      published[letter] = fill;
    }
    for (auto [entry, with] : published) {
      ASSERT_TRUE(reads(slot(entry))) << "step " << step;
      ASSERT_EQ(weightsOf(slot(entry)), std::string(large, with));
    }
  }
}

/// Publishes and reads the entry again and again.
bool publishesAndReads(const Slot &slot, const std::string &weights) {
  for (int round = 0; round < 30; ++round) {
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 10);
    if (!lock || !slot.publish(*lock, {{"weights", weights, ""}}, "text").ok())
      return false;
    *lock = Lock();
    lock = slot.lock(Lock::Kind::Shared, 10);
    if (!lock || !lock->held() || !slot.read().ok()) // gone, or whole
      return false;
  }
  return true;
}

TEST_F(ContentsTest, ProcessesPublishWhileOthersPrune) {
  std::string weights = source('w');
  std::vector<pid_t> writers;
  for (char letter = 'a'; letter < 'e'; ++letter)
    if (pid_t child = ::fork(); child != 0)
      writers.push_back(child);
    else
      ::_exit(publishesAndReads(slot(letter), weights) ? 0 : 1);
  for (size_t round = 0; !writers.empty(); ++round) {
    Store(root).prune(round % 2 ? 0 : 3 * large);
    int status = 0;
    if (::waitpid(writers.back(), &status, WNOHANG) == 0)
      continue;
    EXPECT_EQ(status, 0);
    writers.pop_back();
  }
  Store(root).prune(0);
  EXPECT_EQ(kept(), 0u);
}

} // namespace
