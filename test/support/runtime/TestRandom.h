//===- TestRandom.h - random programs and their rules --------- -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A random list of commands, on random streams, over a few tensors that are
// written again and again. Events order what the list orders. The program knows
// the result in program order, and which command must be done before which
// other one begins.

#ifndef ANABRANCH_SUPPORT_RUNTIME_TESTRANDOM_H
#define ANABRANCH_SUPPORT_RUNTIME_TESTRANDOM_H

#include "support/runtime/TestStamp.h"
#include "support/runtime/TestSupport.h"

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
  int super = -1; ///< its super kernel
};

struct RandomShape {
  int commands = 24, streams = 4, tensors = 6;
  bool calls = true;
  bool supers = false; ///< of launches that follow each other on a stream
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
    if (shape.supers)
      formSupers();
    for (auto [earlier, later] : inStream)
      if (commands[earlier].super < 0 ||
          commands[earlier].super != commands[later].super)
        orders.push_back({earlier, later});
    std::sort(orders.begin(), orders.end(),
              [](auto a, auto b) { return a.second < b.second; });
  }

  /// The tensors after all commands ran in program order.
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
  /// Pairs of commands: the first must be done before the second begins.
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
      if (earlier >= 0) {
        orders.push_back({earlier, id});
        after.push_back(earlier);
      }
    for (int earlier : after)
      waitFor(earlier, c.stream, id);
    if (last[c.stream] >= 0)
      inStream.push_back({last[c.stream], id});
    commands.push_back(c);
    last[c.stream] = id;
    push(c, id);
  }

  /// Lets `stream` wait for the command `earlier`. The record comes after all
  /// commands of that stream so far; an existing record is used again.
  void waitFor(int earlier, int stream, int id) {
    int from = commands[earlier].stream;
    (from == stream ? inStream : orders).push_back({earlier, id});
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

  /// Makes super kernels of some runs of launches, mostly of whole runs.
  void formSupers() {
    for (auto &stream : m.p.streams) {
      auto before = std::move(stream->commands);
      stream->commands.clear();
      int at = static_cast<int>(&stream - m.p.streams.data()), run = 0;
      auto close = [&] {
        if (run > 1)
          m.super("super" + std::to_string(supers), run, at);
        ++supers;
        run = 0;
      };
      for (auto &command : before) {
        const LaunchT *launch = command->action.AsLaunch();
        if (!launch || below(12) == 0)
          close();
        if (launch)
          commands[launch->sizes[1].value()].super = supers;
        run += launch != nullptr;
        stream->commands.push_back(std::move(command));
        if (!launch)
          run = 0;
      }
      close();
    }
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
    l.kernel = m.kernel(id % 3 == 0 ? "stamped" : "settled");
    l.input_count = static_cast<int>(reads.size()) + 1;
    l.buffers = {log};
    l.buffers.insert(l.buffers.end(), reads.begin(), reads.end());
    l.buffers.push_back(buffers[c.writes]);
    l.sizes = {fixed(c.tiles), fixed(id),
               fixed(static_cast<int64_t>(reads.size()))};
    l.cores = c.cores;
    m.push(std::move(l), c.stream).location = m.location("stamped");
    m.work("stamped", 1e5, {0});
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
  std::vector<std::pair<int, int>> inStream; // orders that no data needs
  int supers = 0;
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_RUNTIME_TESTRANDOM_H
