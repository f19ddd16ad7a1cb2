//===- TestRandom.h - random programs, and what must hold of them -*- C++ -*-=//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A list of commands in program order, on random streams, over a few tensors
// that are written again and again; events where the list asks for order. What
// the list computes in program order is known, and so is which command must be
// done before which begins.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_TESTRANDOM_H
#define ANABRANCH_RUNTIME_TESTRANDOM_H

#include "runtime/TestStamp.h"
#include "runtime/TestSupport.h"

#include <climits>
#include <cstring>
#include <random>

namespace anabranch::testing {

using Words = std::vector<uint32_t>;

struct RandomCommand {
  enum class Kind { Launch, Call, Copy };
  Kind kind = Kind::Launch;
  int stream = 0, tiles = 0, cores = 0;
  std::vector<int> reads; // tensors
  int writes = -1;
  bool ordered = false;
};

struct RandomShape {
  int commands = 24, streams = 4, tensors = 6;
  bool calls = true;
};

class RandomProgram {
public:
  explicit RandomProgram(unsigned seed, const RandomShape &shape = {})
      : random(seed), shape(shape) {
    for (int s = 1; s < shape.streams; ++s)
      m.stream(below(5) - 2);
    last.assign(shape.streams, -1);
    covered.assign(shape.streams, {-1, -1});
    addTensors();
    for (int i = 0; i < shape.commands; ++i)
      addRandom();
    int arenas = inputs + shape.tensors;
    for (int tensor = inputs; tensor < arenas; ++tensor) {
      RandomCommand copy;
      copy.kind = RandomCommand::Kind::Copy;
      copy.stream = below(shape.streams);
      copy.reads = {tensor};
      copy.writes = tensorOf(m.output({elements()}));
      add(copy);
    }
  }

  /// The tensors once all commands ran in program order.
  std::vector<Words> expected(const Words &x, const Words &state) const {
    std::vector<Words> values(buffers.size(), Words(STAMP_ELEMENTS, 0));
    values[0] = x;
    values[1] = state;
    for (size_t id = 0; id < commands.size(); ++id) {
      const RandomCommand &c = commands[id];
      if (c.kind == RandomCommand::Kind::Copy) {
        values[c.writes] = values[c.reads[0]];
        continue;
      }
      std::vector<const uint32_t *> read;
      for (int tensor : c.reads)
        read.push_back(values[tensor].data());
      for (int tile = 0; tile < c.tiles; ++tile)
        stamp_tile(read.data(), static_cast<int64_t>(read.size()),
                   values[c.writes].data(), static_cast<int64_t>(id), tile);
    }
    return values;
  }

  ProgramMaker m;
  std::vector<RandomCommand> commands;
  /// The first must be done before the second begins.
  std::vector<std::pair<int, int>> orders;
  std::vector<int> buffers; ///< of the tensors: x, state, arena, ...
  int log = 0;

private:
  static constexpr int inputs = 2; ///< tensors that the caller gives
  static constexpr int allTiles = STAMP_ELEMENTS / STAMP_TILE;

  static Size elements() { return fixed(STAMP_ELEMENTS); }
  int below(int end) { return static_cast<int>(random() % end); }

  int tensorOf(int buffer) {
    buffers.push_back(buffer);
    uses.push_back({});
    return static_cast<int>(buffers.size()) - 1;
  }

  void addTensors() {
    int words = STAMP_HEADER_WORDS +
                STAMP_ENTRY_WORDS * (shape.commands + 2 * shape.tensors + 1);
    tensorOf(m.input("x", {elements()}));
    tensorOf(m.input("state", {elements()}, package::DType::F32, true));
    log = m.input("log", {fixed(words)}, package::DType::I64);
    constexpr int64_t bytes = STAMP_ELEMENTS * sizeof(uint32_t);
    for (int i = 0; i < shape.tensors; ++i) {
      RandomCommand fill;
      fill.writes = tensorOf(m.arena(i * bytes, {elements()}, bytes));
      fill.stream = below(shape.streams);
      fill.tiles = allTiles;
      fill.reads = {0, 1};
      add(fill);
    }
  }

  void addRandom() {
    RandomCommand c;
    c.stream = below(shape.streams);
    c.tiles = below(3) ? below(4) : below(allTiles + 1);
    c.cores = below(4) ? 0 : 1 + below(3);
    for (int i = below(4); i > 0; --i)
      c.reads.push_back(below(static_cast<int>(buffers.size())));
    c.writes = 1 + below(shape.tensors + 1);
    if (shape.calls && below(6) == 0) {
      c.kind = RandomCommand::Kind::Call;
      c.tiles = allTiles;
      c.ordered = below(2) == 0;
      c.writes = tensorOf(m.external({elements()}));
    }
    std::vector<int> after;
    if (below(4) == 0)
      after.push_back(below(static_cast<int>(commands.size())));
    add(c, after);
  }

  //===--- order ----------------------------------------------------------===//

  struct Uses {
    int writer = -1;
    std::vector<int> readers; // since then
  };

  std::vector<int> needsOf(const RandomCommand &c, int id) {
    std::vector<int> needs;
    for (int tensor : c.reads) {
      needs.push_back(uses[tensor].writer);
      uses[tensor].readers.push_back(id);
    }
    Uses &written = uses[c.writes];
    needs.push_back(written.writer);
    for (int reader : written.readers)
      if (reader != id)
        needs.push_back(reader);
    written = {id, {}};
    if (c.ordered) {
      needs.push_back(lastOrdered);
      lastOrdered = id;
    }
    return needs;
  }

  void add(const RandomCommand &c, std::vector<int> after = {}) {
    int id = static_cast<int>(commands.size());
    for (int earlier : needsOf(c, id))
      after.push_back(earlier);
    for (int earlier : after)
      if (earlier >= 0)
        waitFor(earlier, c.stream, id);
    if (last[c.stream] >= 0)
      orders.push_back({last[c.stream], id});
    commands.push_back(c);
    last[c.stream] = id;
    push(c, id);
  }

  /// The record comes after all that the other stream has so far; one that is
  /// there already serves as well.
  void waitFor(int earlier, int stream, int id) {
    orders.push_back({earlier, id});
    int from = commands[earlier].stream;
    if (from == stream)
      return;
    auto &[event, until] = covered[from];
    if (event < 0 || until < earlier || below(3) == 0) {
      event = m.p.events;
      until = last[from];
      m.record(event, from);
    }
    m.wait(event, stream);
  }

  //===--- the program ----------------------------------------------------===//

  void push(const RandomCommand &c, int id) {
    std::vector<int> reads;
    for (int tensor : c.reads)
      reads.push_back(buffers[tensor]);
    if (c.kind == RandomCommand::Kind::Copy)
      return m.copy(reads[0], buffers[c.writes], c.stream);
    if (c.kind == RandomCommand::Kind::Call)
      return pushCall(c, id, reads);
    LaunchT l;
    l.kernel = m.kernel("stamped");
    l.input_count = static_cast<int>(reads.size()) + 1;
    l.buffers = {log};
    l.buffers.insert(l.buffers.end(), reads.begin(), reads.end());
    l.buffers.push_back(buffers[c.writes]);
    l.sizes = {fixed(c.tiles), fixed(id),
               fixed(static_cast<int64_t>(reads.size()))};
    l.cores = c.cores;
    m.push(std::move(l), c.stream).location = m.location("stamped");
  }

  void pushCall(const RandomCommand &c, int id, const std::vector<int> &reads) {
    CallT call;
    call.op = "test::stamp";
    call.ordered = c.ordered;
    call.results = {buffers[c.writes]};
    auto add = [](auto &list, ArgKind kind) -> ArgumentT & {
      list.push_back(std::make_unique<ArgumentT>());
      list.back()->kind = kind;
      return *list.back();
    };
    add(call.arguments, ArgKind::Tensor).buffer = log;
    add(call.arguments, ArgKind::Int).int_value =
        std::make_unique<Size>(fixed(id));
    ArgumentT &list = add(call.arguments, ArgKind::List);
    for (int read : reads)
      add(list.items, ArgKind::Tensor).buffer = read;
    m.push(std::move(call), c.stream).location = m.location("stamp");
    m.p.needs_libtorch = true;
  }

  std::mt19937 random;
  RandomShape shape;
  std::vector<Uses> uses;                   // by tensor
  std::vector<int> last;                    // command of each stream
  std::vector<std::pair<int, int>> covered; // last event of each stream
  int lastOrdered = -1;
};

/// Runs the calls of random programs, on the thread that they belong to.
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

  /// What does not hold of the last call; empty if all does.
  std::string wrong() const {
    // Commands without tiles note nothing, but hand on what came before them.
    std::vector<int64_t> done;
    for (size_t id = 0; id < program.commands.size(); ++id)
      done.push_back(entry(id).end);
    for (auto [earlier, later] : program.orders) {
      if (done[earlier] >= entry(later).begin)
        return "command " + std::to_string(later) +
               " began before the end of " + std::to_string(earlier);
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
    if (state != expected[1])
      return "the state differs";
    for (size_t i = 0; i < memory.memory.size(); ++i)
      if (std::memcmp(memory.memory[i].data(),
                      expected[program.commands[output + i].writes].data(),
                      STAMP_ELEMENTS * sizeof(uint32_t)) != 0)
        return "output " + std::to_string(i) + " differs";
    return {};
  }

  /// Pairs of commands that ran beside each other.
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

/// Opens random programs; the default number of threads is a test's to change.
class RandomPackages {
protected:
  ~RandomPackages() { setDefaultThreads(0); }

  std::shared_ptr<const Executable> open(const RandomProgram &program) {
    std::string path = folder.path + "/p" + std::to_string(count++);
    Status written = writeTestPackage(path, program.m);
    EXPECT_TRUE(written.ok()) << written.message();
    OpenOptions options;
    options.hostCalls = &host;
    auto executable = Executable::open(path, options);
    EXPECT_TRUE(executable.ok()) << executable.status().message();
    std::filesystem::remove_all(path);
    return executable ? *executable : nullptr;
  }

private:
  TemporaryFolder folder;
  StampHost host;
  int count = 0;
};

} // namespace anabranch::testing

#endif // ANABRANCH_RUNTIME_TESTRANDOM_H
