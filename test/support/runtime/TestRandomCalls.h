//===- TestRandomCalls.h - calls of random programs, checked ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTRANDOMCALLS_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTRANDOMCALLS_H

#include "support/runtime/TestRandom.h"

#include <climits>
#include <cstring>

namespace anabranch::testing {

/// Runs the calls of random programs. It checks that they run on the calling
/// thread.
class StampHost : public HostCalls {
public:
  Expected<void *> prepare(const char *, const char *) override {
    return static_cast<void *>(this);
  }
  Status call(const HostCall &call, HostResult *results) override {
    if (!mayCall())
      return Status(StatusCode::Internal, "called on another thread");
    auto *made = new Words(STAMP_ELEMENTS);
    std::vector<const uint32_t *> reads;
    const HostArgument &list = call.arguments[2];
    for (size_t i = 0; i < list.itemCount; ++i)
      reads.push_back(static_cast<const uint32_t *>(list.items[i].tensor.data));
    void *log = call.arguments[0].tensor.data;
    int64_t id = call.arguments[1].integer;
    bool fails = false;
    for (int64_t tile = 0; tile < STAMP_ELEMENTS / STAMP_TILE; ++tile)
      fails |= stamp(log, reads.data(), static_cast<int64_t>(reads.size()),
                     made->data(), id, tile) != 0;
    if (fails) {
      delete made;
      return Status(StatusCode::HostError, "the host fails, says the test");
    }
    static const int64_t shape[] = {STAMP_ELEMENTS}, strides[] = {1};
    results[0].handle = made;
    results[0].tensor = {made->data(), shape, strides, 1,
                         anabranch::DType::F32};
    return {};
  }
  void release(void *handle) override { delete static_cast<Words *>(handle); }

  /// True on a thread while it is inside `run`.
  static bool &mayCall() {
    static thread_local bool may = false;
    return may;
  }
};

/// The arguments of one call, and what it left.
class RandomCall {
public:
  explicit RandomCall(const RandomProgram &program, unsigned seed = 1)
      : program(program), x(STAMP_ELEMENTS), first(STAMP_ELEMENTS) {
    std::mt19937 random(seed);
    for (Words *words : {&x, &first})
      for (uint32_t &word : *words)
        word = static_cast<uint32_t>(random());
    expected = program.expected(x, first);
    log.resize(static_cast<size_t>(
        program.m.p.buffers[program.log]->shape[0].value()));
    output = program.commands.size();
    for (size_t id = 0; id < output; ++id)
      if (program.commands[id].kind == RandomCommand::Kind::Copy)
        output = id;
  }

  Status run(const Executable &executable, int64_t stalls = 0,
             int64_t fails = -1) {
    state = first;
    std::fill(log.begin(), log.end(), 0);
    auto *header = reinterpret_cast<stamp_header *>(log.data());
    *header = {0, stalls, fails};
    for (size_t id = 0; id < program.commands.size(); ++id)
      *stamp_entry_of(log.data(), static_cast<int64_t>(id)) = {INT64_MAX, -1, 0,
                                                               0, 0};
    const int64_t shape[] = {STAMP_ELEMENTS},
                  words[] = {static_cast<int64_t>(log.size())};
    InputValue inputs[3];
    inputs[0].tensor = {x.data(), shape, nullptr, 1, anabranch::DType::F32};
    inputs[1].tensor = {state.data(), shape, nullptr, 1, anabranch::DType::F32};
    inputs[2].tensor = {log.data(), words, nullptr, 1, anabranch::DType::I64};
    outputs.assign(executable.outputs().size(), {});
    StampHost::mayCall() = true;
    Status s =
        executable.run(inputs, 3, outputs.data(), outputs.size(), memory);
    StampHost::mayCall() = false;
    return s;
  }

  /// What is wrong with the last call; empty if nothing is.
  std::string wrong() const {
    // Commands without tiles record nothing, but pass on the order of the
    // commands before them.
    std::vector<int64_t> done;
    for (size_t id = 0; id < program.commands.size(); ++id)
      done.push_back(entry(id).end);
    for (auto [earlier, later] : program.orders) {
      if (done[earlier] >= entry(later).begin)
        return "command " + std::to_string(later) +
               " began before the end of " + std::to_string(earlier);
      // In a super kernel only bytes order launches, and these commands share
      // none.
      const RandomCommand &c = program.commands[later];
      if (c.tiles > 0 || c.super < 0)
        done[later] = std::max(done[later], done[earlier]);
    }
    for (size_t id = 0; id < program.commands.size(); ++id) {
      const RandomCommand &c = program.commands[id];
      int64_t tiles = c.kind == RandomCommand::Kind::Copy ? 0 : c.tiles;
      if (entry(id).tiles != tiles)
        return "command " + std::to_string(id) + " ran " +
               std::to_string(entry(id).tiles) + " tiles";
      if (c.cores && entry(id).most > c.cores)
        return "command " + std::to_string(id) + " had " +
               std::to_string(entry(id).most) + " workers at once";
    }
    return wrongValues();
  }

  /// The values that differ from those of program order; empty if none does.
  std::string wrongValues() const {
    if (state != expected[1])
      return "the state differs";
    for (size_t i = 0; i < memory.memory.size(); ++i)
      if (std::memcmp(static_cast<const void *>(memory.memory[i].data()),
                      expected[program.commands[output + i].writes].data(),
                      STAMP_ELEMENTS * sizeof(uint32_t)) != 0)
        return "output " + std::to_string(i) + " differs";
    return {};
  }

  /// The number of pairs of commands that overlapped in time.
  int64_t overlaps() const {
    int64_t pairs = 0;
    for (size_t a = 0; a < program.commands.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        pairs += entry(a).begin < entry(b).end && entry(b).begin < entry(a).end;
    return pairs;
  }

  const stamp_entry &entry(size_t id) const {
    auto *words = const_cast<int64_t *>(log.data());
    return *stamp_entry_of(words, static_cast<int64_t>(id));
  }
  int64_t tickets() const {
    return __atomic_load_n(log.data(), __ATOMIC_RELAXED);
  }

private:
  const RandomProgram &program;
  Words x, first, state;
  std::vector<Words> expected;
  std::vector<int64_t> log;
  std::vector<OutputValue> outputs;
  VectorAllocator memory;
  size_t output; ///< the first command that copies one
};

/// Writes and opens random programs. A test may change the default number of
/// threads.
class RandomPackages {
protected:
  ~RandomPackages() { setDefaultThreads(0); }

  /// Writes a package and returns its path.
  std::string write(const RandomProgram &program) {
    return folder.write(program.m);
  }

  Expected<std::shared_ptr<const Executable>> openAt(const std::string &path) {
    OpenOptions options;
    options.hostCalls = &host;
    auto executable = Executable::open(path, options);
    std::filesystem::remove_all(path);
    return executable;
  }

  std::shared_ptr<const Executable> open(const RandomProgram &program) {
    auto executable = openAt(write(program));
    EXPECT_TRUE(executable.ok()) << executable.status().message();
    return executable ? *executable : nullptr;
  }

private:
  PackageFolder folder;
  StampHost host;
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_RUNTIME_TESTRANDOMCALLS_H
