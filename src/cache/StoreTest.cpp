//===- StoreTest.cpp - entries of the cache, and what may befall them -----===//
// SPDX-License-Identifier: Apache-2.0

#include "cache/Store.h"

#include "cache/Identity.h"
#include "cache/Index.h"
#include "package/files/FileHash.h"
#include "support/process/TemporaryFolder.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <grp.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace anabranch;
using namespace anabranch::cache;
namespace fs = std::filesystem;

namespace {

const std::string key(64, 'a');
const std::string text = R"({"say": "what it is"})";

std::vector<CacheFile> files(char letter = 'x', size_t size = 10000) {
  return {{"one", "", std::string(size, letter)},
          {"two", "", std::string(1, letter)},
          {"none", "", ""}};
}

class StoreTest : public ::testing::Test {
protected:
  void TearDown() override { fs::permissions(root, fs::perms::owner_all); }
  Store store() const { return Store(root); }
  Slot slot(const std::string &of = key) const {
    return store().slot("packages", of);
  }
  void publish(const Slot &into, const std::vector<CacheFile> &what) {
    Expected<Lock> lock = into.lock(Lock::Kind::Exclusive, 1);
    ASSERT_TRUE(lock) << lock.status().message();
    Status status = into.publish(*lock, what, text);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::string file(const std::string &name) const {
    return slot().folder() + "/" + name;
  }

  anabranch::testing::TemporaryFolder folder;
  const std::string &root = folder.path;
};

TEST_F(StoreTest, ReadsWhatWasPublished) {
  Expected<std::optional<std::string>> found = slot().read();
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->has_value());
  publish(slot(), files());
  found = slot().read();
  ASSERT_TRUE(found) << found.status().message();
  EXPECT_EQ(**found, text);
  EXPECT_EQ(fs::file_size(file("one")), 10000u);
  struct stat info;
  ASSERT_EQ(::stat(file(Store::index).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(StoreTest, CopiesFiles) {
  std::string source = root + "/source";
  std::ofstream(source) << std::string(600000, 's');
  publish(slot(), {{"copy", source, ""}});
  ASSERT_TRUE(slot().read());
  EXPECT_EQ(fs::file_size(file("copy")), 600000u);
}

TEST_F(StoreTest, ReplacesAnEntry) {
  publish(slot(), files('x'));
  publish(slot(), files('y', 77));
  ASSERT_TRUE(slot().read());
  EXPECT_EQ(fs::file_size(file("one")), 77u);
  EXPECT_EQ(store().list().size(), 1u);
}

TEST_F(StoreTest, RefusesEveryChangedByte) {
  for (const char *name : {"one", "two", Store::index}) {
    publish(slot(), files());
    uint64_t size = fs::file_size(file(name));
    uint64_t step = size > 2000 ? 97 : 1;
    for (uint64_t at = 0; at < size; at += step) {
      std::fstream stream(file(name));
      stream.seekg(int64_t(at));
      char old = char(stream.get());
      stream.seekp(int64_t(at));
      stream.put(char(old ^ 1));
      stream.close();
      EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage)
          << name << " at " << at;
      stream.open(file(name));
      stream.seekp(int64_t(at));
      stream.put(old);
    }
    EXPECT_TRUE(slot().read());
    fs::resize_file(file(name), size - 1);
    EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage) << name;
    fs::remove(file(name));
    EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage) << name;
  }
}

TEST_F(StoreTest, RefusesModesAndKinds) {
  publish(slot(), files());
  for (mode_t mode : {0644, 0660, 0700, 0400}) {
    ::chmod(file(Store::index).c_str(), mode);
    EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage) << mode;
  }
  ::chmod(file(Store::index).c_str(), 0600);
  ::chmod(file("one").c_str(), 0666);
  EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage);
  ::chmod(file("one").c_str(), 0600);
  ::chmod(slot().folder().c_str(), 0777);
  EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage);
  ::chmod(slot().folder().c_str(), 0700);
  fs::remove(file("one"));
  fs::create_symlink("/etc/hostname", file("one"));
  EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage);
  fs::remove_all(slot().folder());
  std::ofstream(slot().folder()) << "a file";
  EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage);
  Expected<Lock> lock = slot().lock(Lock::Kind::Exclusive, 1);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(slot().remove(*lock).ok());
  Expected<std::optional<std::string>> gone = slot().read();
  EXPECT_TRUE(gone && !gone->has_value());
}

TEST_F(StoreTest, LockWaitsAndGivesUp) {
  Expected<Lock> first = slot().lock(Lock::Kind::Shared, 0);
  ASSERT_TRUE(!first || !first->held()); // the folder is not there yet
  first = slot().lock(Lock::Kind::Exclusive, 0);
  ASSERT_TRUE(first && first->exclusive());
  Expected<Lock> second = slot().lock(Lock::Kind::Shared, 0.01);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->held());
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    *first = Lock();
  });
  second = slot().lock(Lock::Kind::Shared, 5);
  release.join();
  ASSERT_TRUE(second && second->held());
  EXPECT_FALSE(second->exclusive());
  EXPECT_FALSE(slot().publish(*second, files(), text).ok());
  Expected<Lock> third = slot().lock(Lock::Kind::Shared, 0);
  EXPECT_TRUE(third && third->held());
}

TEST_F(StoreTest, FullDiskLeavesNothing) {
  pid_t child = ::fork();
  if (child == 0) {
    rlimit limit = {5000, 5000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    (void)::signal(SIGXFSZ, SIG_IGN);
    Expected<Lock> lock = slot().lock(Lock::Kind::Exclusive, 1);
    bool refused = lock && slot().publish(*lock, files(), text).code() ==
                               StatusCode::IoError;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Expected<std::optional<std::string>> found = slot().read();
  EXPECT_TRUE(found && !found->has_value());
  for (const auto &left : fs::directory_iterator(root + "/packages/aa"))
    EXPECT_FALSE(left.is_directory()) << left.path();
}

/// As a user who has no more rights than the modes say.
bool readsWhereNothingCanBeWritten(const Store &store) {
  Slot slot = store.slot("packages", key);
  std::string shelf = fs::path(slot.folder()).parent_path();
  {
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 1);
    if (!lock || !slot.publish(*lock, files(), text).ok())
      return false;
  }
  fs::permissions(shelf, fs::perms::owner_read | fs::perms::owner_exec);
  bool locked = slot.lock(Lock::Kind::Shared, 1).ok();
  Expected<std::optional<std::string>> found = slot.read();
  Slot other = store.slot("packages", "aa" + std::string(62, 'b'));
  StatusCode refused = other.lock(Lock::Kind::Exclusive, 1).status().code();
  fs::permissions(shelf, fs::perms::owner_all);
  return locked && found && found->has_value() &&
         refused == StatusCode::IoError;
}

TEST_F(StoreTest, ReadOnlyFolderIsRead) {
  constexpr uid_t nobody = 65534;
  if (::geteuid() != 0) {
    EXPECT_TRUE(readsWhereNothingCanBeWritten(store()));
    return;
  }
  ASSERT_EQ(::chown(root.c_str(), nobody, nobody), 0);
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(::setuid(nobody) == 0 && readsWhereNothingCanBeWritten(store())
                ? 0
                : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreTest, RefusesAnotherUsersFiles) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  publish(slot(), files());
  for (const char *name : {Store::index, "one"}) {
    ASSERT_EQ(::chown(file(name).c_str(), 12345, 12345), 0);
    EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage) << name;
    ASSERT_EQ(::chown(file(name).c_str(), 0, 0), 0);
  }
  ASSERT_EQ(::chown(slot().folder().c_str(), 12345, 12345), 0);
  EXPECT_EQ(slot().read().status().code(), StatusCode::BadPackage);
}

/// Pods that run as different users of one group share a volume.
TEST_F(StoreTest, UsersOfAGroupShareEntries) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root becomes other users";
  constexpr gid_t team = 54321;
  ASSERT_EQ(::chown(root.c_str(), 0, team), 0);
  ASSERT_EQ(::chmod(root.c_str(), 02775), 0);
  const std::string place = root + "/packages/aa/" + key;
  auto as = [&](uid_t user, const std::function<bool()> &act) {
    pid_t child = ::fork();
    if (child == 0)
      ::_exit(::setgroups(0, nullptr) == 0 && ::setgid(team) == 0 &&
                      ::setuid(user) == 0 && act()
                  ? 0
                  : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  auto publishes = [&] {
    Slot slot(place, Store::index, "group");
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 1);
    return lock && slot.publish(*lock, files(), text).ok();
  };
  auto reads = [&](const std::string &trust) {
    Slot slot(place, Store::index, trust);
    Expected<Lock> lock = slot.lock(Lock::Kind::Shared, 1);
    auto found = slot.read();
    return lock && found && found->has_value();
  };
  EXPECT_TRUE(as(10001, publishes));
  EXPECT_TRUE(as(10002, [&] { return reads("group"); }));
  EXPECT_TRUE(as(10002, [&] { return reads("anyone"); }));
  EXPECT_FALSE(as(10002, [&] { return reads("user"); }));
  EXPECT_FALSE(as(10002, [&] { return reads("friends"); }));
  EXPECT_TRUE(as(10002, publishes)); // in the first one's place
  EXPECT_TRUE(as(10001, [&] { return reads("group"); }));
}

TEST_F(StoreTest, PrunesTheLeastRecentlyUsed) {
  for (char letter = 'a'; letter < 'f'; ++letter) {
    std::string other(64, letter);
    publish(slot(other), files());
    timespec times[2] = {{1000000 + letter, 0}, {1000000 + letter, 0}};
    std::string name = slot(other).folder() + "/" + Store::index;
    ::utimensat(AT_FDCWD, name.c_str(), times, 0);
  }
  std::vector<CacheEntryInfo> all = store().list();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_TRUE(slot(key).read()); // makes it the most recent
  Expected<Lock> used = slot(std::string(64, 'b')).lock(Lock::Kind::Shared, 1);
  CachePruned pruned = store().prune(all[0].bytes * 3);
  EXPECT_EQ(pruned.entries, 2u);
  EXPECT_EQ(pruned.kept, all[0].bytes * 3);
  std::string left;
  for (const CacheEntryInfo &entry : store().list())
    left += entry.key[0];
  EXPECT_EQ(left, "bea"); // b is in use, a was used last
}

/// Publishes over and over until it is killed.
[[noreturn]] void publishForever(const Slot &slot) {
  for (char letter = 'a';; letter = letter == 'z' ? 'a' : char(letter + 1)) {
    Expected<Lock> lock = slot.lock(Lock::Kind::Exclusive, 5);
    if (lock && lock->exclusive())
      (void)slot.publish(*lock, files(letter, 100000), std::string(1, letter));
  }
}

TEST_F(StoreTest, SurvivesKillAtAnyInstant) {
  std::mt19937 random(7);
  publish(slot(), files());
  for (int round = 0; round < 200; ++round) {
    pid_t child = ::fork();
    if (child == 0)
      publishForever(slot());
    ::usleep(random() % 4000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    Expected<Lock> lock = slot().lock(Lock::Kind::Shared, 1);
    ASSERT_TRUE(lock && lock->held());
    Expected<std::optional<std::string>> found = slot().read();
    ASSERT_TRUE(found) << found.status().message();
    ASSERT_TRUE(found->has_value());
  }
  store().prune(uint64_t(1) << 40);
  for (const auto &left : fs::directory_iterator(root + "/packages/aa"))
    EXPECT_EQ(left.path().filename().string().rfind(".tmp", 0),
              std::string::npos)
        << left.path();
  EXPECT_TRUE(slot().read());
}

TEST_F(StoreTest, SixteenProcessesPublishOnce) {
  std::string log = root + "/log";
  for (int i = 0; i < 16; ++i)
    if (::fork() == 0) {
      Expected<Lock> lock = slot().lock(Lock::Kind::Exclusive, 30);
      if (!lock || !lock->exclusive())
        ::_exit(1);
      Expected<std::optional<std::string>> found = slot().read();
      bool ok = bool(found);
      if (found && !found->has_value()) {
        std::ofstream(log, std::ios::app) << "published\n";
        ok = slot().publish(*lock, files(), text).ok();
      }
      ::_exit(ok ? 0 : 1);
    }
  for (int i = 0; i < 16; ++i) {
    int status = 0;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fs::file_size(log), std::string("published\n").size());
}

TEST_F(StoreTest, SweepsLocksThatGuardNothing) {
  {
    Expected<Lock> lock = slot().lock(Lock::Kind::Exclusive, 1);
    ASSERT_TRUE(lock);
  }
  EXPECT_EQ(store().prune(0).litter, 1u);
  EXPECT_TRUE(fs::is_empty(root + "/packages/aa"));
}

TEST(IndexTest, RefusesWhatIsNoIndex) {
  EXPECT_FALSE(readIndex(""));
  EXPECT_FALSE(readIndex(std::string(200, 'x')));
  Index index{{{"../up", 1, "00"}}, "text"};
  EXPECT_FALSE(readIndex(writeIndex(index)));
  index.files[0].name = "fine";
  Expected<Index> read = readIndex(writeIndex(index));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text, "text");
  EXPECT_EQ(read->files[0].bytes, 1u);
}

TEST(IndexTest, RefusesAnotherFormat) {
  auto why = [](std::string_view bytes) {
    return readIndex(bytes).status().message();
  };
  std::string sha256 = "{\"anabranch_cache\": 2, \"files\": [], \"text\": "
                       "\"\"}\nsha256 " +
                       std::string(64, '0') + "\n";
  EXPECT_EQ(why(sha256),
            "the index is refused: it is truncated or has another format");
  std::string older = "{\"anabranch_cache\": 2}\n";
  std::string hash = package::FileHash::of(older.data(), older.size());
  EXPECT_EQ(why(older + "xxh128 " + hash + "\n"),
            "the index is refused: it has another format");
  std::string changed = writeIndex({{}, "a text of xxh128 digits"});
  ASSERT_TRUE(readIndex(changed));
  changed[changed.find("digits")] = 'D';
  EXPECT_EQ(why(changed), "the index is refused: it was changed");
}

TEST(IdentityTest, OfABuildNeedsAFile) {
  EXPECT_EQ(buildIdentity("/nowhere"), "");
  EXPECT_FALSE(buildIdentity("/proc/self/exe").empty());
}

} // namespace
