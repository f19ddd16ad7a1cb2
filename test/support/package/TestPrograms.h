//===- TestPrograms.h - programs made by hand, for tests --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_PACKAGE_TESTPROGRAMS_H
#define ANABRANCH_SUPPORT_PACKAGE_TESTPROGRAMS_H

#include "anabranch/KernelABI.h"
#include "package/folder/Writer.h"
#include "support/process/TemporaryFolder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace anabranch::testing {

using namespace package;

inline Size fixed(int64_t value) { return Size(value, -1); }
inline Size slot(int number) { return Size(0, number); }

/// Makes a program by hand, in few words.
class ProgramMaker {
public:
  ProgramMaker() {
    p.abi_version = ANABRANCH_KERNEL_ABI_VERSION;
    p.name = "test";
    p.arena_bytes = std::make_unique<Size>(fixed(0));
    p.streams.push_back(std::make_unique<StreamT>());
  }

  int input(const std::string &name, std::vector<Size> shape,
            package::DType dtype = package::DType::F32, bool mutated = false) {
    auto i = std::make_unique<InputT>();
    i->name = name;
    i->dtype = dtype;
    i->shape = shape;
    i->mutated = mutated;
    p.inputs.push_back(std::move(i));
    int number = static_cast<int>(p.inputs.size()) - 1;
    int b = buffer(BufferKind::Input, shape, dtype);
    p.buffers[b]->index = number;
    return b;
  }
  void scalar(const std::string &name, int slot) {
    auto i = std::make_unique<InputT>();
    i->name = name;
    i->is_scalar = true;
    i->scalar_slot = slot;
    p.inputs.push_back(std::move(i));
  }
  int output(std::vector<Size> shape,
             package::DType dtype = package::DType::F32) {
    auto o = std::make_unique<OutputT>();
    o->kind = OutputKind::Tensor;
    o->buffer = buffer(BufferKind::Output, shape, dtype);
    p.buffers[o->buffer]->index = static_cast<int>(p.outputs.size());
    p.outputs.push_back(std::move(o));
    return p.outputs.back()->buffer;
  }
  OutputT &otherOutput(OutputKind kind) {
    p.outputs.push_back(std::make_unique<OutputT>());
    p.outputs.back()->kind = kind;
    return *p.outputs.back();
  }
  int arena(int64_t offset, std::vector<Size> shape, int64_t bytes) {
    int b = buffer(BufferKind::Arena, shape, package::DType::F32);
    p.buffers[b]->offset = std::make_unique<Size>(fixed(offset));
    p.buffers[b]->bytes = std::make_unique<Size>(fixed(bytes));
    if (p.arena_bytes->value() < offset + bytes)
      *p.arena_bytes = fixed(offset + bytes);
    return b;
  }
  int persistent(int64_t offset, std::vector<Size> shape, int64_t bytes) {
    int b = buffer(BufferKind::Persistent, shape, package::DType::F32);
    p.buffers[b]->offset = std::make_unique<Size>(fixed(offset));
    p.buffers[b]->bytes = std::make_unique<Size>(fixed(bytes));
    p.persistent_bytes = std::make_unique<Size>(fixed(offset + bytes));
    return b;
  }
  int constant(const std::string &name, std::vector<Size> shape) {
    int b = buffer(BufferKind::Constant, shape, package::DType::F32);
    p.buffers[b]->name = name;
    return b;
  }
  int external(std::vector<Size> shape) {
    return buffer(BufferKind::External, shape, package::DType::F32);
  }
  int buffer(BufferKind kind, std::vector<Size> shape, package::DType dtype) {
    auto b = std::make_unique<BufferT>();
    b->kind = kind;
    b->shape = std::move(shape);
    b->dtype = dtype;
    p.buffers.push_back(std::move(b));
    return static_cast<int>(p.buffers.size()) - 1;
  }

  int stream(int priority = 0) {
    p.streams.push_back(std::make_unique<StreamT>());
    p.streams.back()->priority = priority;
    return static_cast<int>(p.streams.size()) - 1;
  }
  int kernel(const std::string &name) {
    for (size_t i = 0; i < p.kernels.size(); ++i)
      if (p.kernels[i]->name == name)
        return static_cast<int>(i);
    p.kernels.push_back(std::make_unique<KernelT>());
    p.kernels.back()->name = name;
    return static_cast<int>(p.kernels.size()) - 1;
  }
  void launch(const std::string &name, std::vector<int> reads,
              std::vector<int> writes, Size size, int stream = 0) {
    LaunchT l;
    l.kernel = kernel(name);
    l.input_count = static_cast<int>(reads.size());
    l.buffers = reads;
    l.buffers.insert(l.buffers.end(), writes.begin(), writes.end());
    l.sizes = {size};
    push(std::move(l), stream).location = location(name);
  }
  /// Sets the work of every launch of a kernel: a factor times some sizes.
  void work(const std::string &name, double factor, std::vector<int> sizes) {
    auto term = std::make_unique<TermT>();
    term->factor = factor;
    term->sizes = std::move(sizes);
    auto work = std::make_unique<WorkT>();
    work->flops.push_back(std::move(term));
    p.kernels[kernel(name)]->work = std::move(work);
  }
  /// Makes one super kernel of the last launches of a stream.
  SuperT &super(const std::string &name, int count, int stream = 0) {
    auto &list = p.streams[stream]->commands;
    SuperT s;
    s.name = name;
    s.streams = 1;
    for (auto it = list.end() - count; it != list.end(); ++it) {
      s.launches.push_back(
          std::make_unique<LaunchT>(*(*it)->action.AsLaunch()));
      s.locations.push_back((*it)->location);
    }
    list.erase(list.end() - count, list.end());
    return *push(std::move(s), stream).action.AsSuper();
  }
  /// Adds a region and returns its number.
  int region(ProgramMaker maker) {
    p.regions.push_back(std::make_unique<ProgramT>(std::move(maker.p)));
    return static_cast<int>(p.regions.size()) - 1;
  }
  static std::unique_ptr<ArgumentT> tensorArgument(int buffer) {
    auto argument = std::make_unique<ArgumentT>();
    argument->kind = ArgKind::Tensor;
    argument->buffer = buffer;
    return argument;
  }
  BranchT &branch(int predicate, std::vector<int> regions,
                  std::vector<int> reads, std::vector<int> results,
                  int stream = 0) {
    BranchT b;
    b.predicate = tensorArgument(predicate);
    b.regions = std::move(regions);
    for (int buffer : reads)
      b.arguments.push_back(tensorArgument(buffer));
    b.results = std::move(results);
    CommandT &command = push(std::move(b), stream);
    command.location = location("cond");
    return *command.action.AsBranch();
  }
  /// A loop of a number of trips.
  LoopT &loop(int body, int64_t trips, std::vector<int> carried,
              std::vector<int> scanned, std::vector<int> results,
              std::vector<int> stacked, std::vector<int> spare) {
    LoopT l;
    l.body = body;
    l.trips = std::make_unique<Size>(fixed(trips));
    for (int buffer : carried)
      l.carried.push_back(tensorArgument(buffer));
    for (int buffer : scanned)
      l.scanned.push_back(tensorArgument(buffer));
    l.results = std::move(results);
    l.stacked = std::move(stacked);
    l.spare = std::move(spare);
    CommandT &command = push(std::move(l), 0);
    command.location = location("scan");
    return *command.action.AsLoop();
  }
  void copy(int from, int to, int stream = 0) {
    CopyT c;
    c.source = from;
    c.destination = to;
    push(c, stream);
  }
  void record(int event, int stream) {
    RecordT r;
    r.event = event;
    p.events = std::max(p.events, event + 1);
    push(r, stream);
  }
  void wait(int event, int stream) {
    WaitT w;
    w.event = event;
    p.events = std::max(p.events, event + 1);
    push(w, stream);
  }
  template <typename Action> CommandT &push(Action action, int stream) {
    auto &list = initializing ? p.initialize : p.streams;
    if (initializing && list.empty())
      list.push_back(std::make_unique<StreamT>());
    auto c = std::make_unique<CommandT>();
    c->action.Set(std::move(action));
    list[stream]->commands.push_back(std::move(c));
    return *list[stream]->commands.back();
  }
  int location(const std::string &operators) {
    auto l = std::make_unique<LocationT>();
    l->file = "model.py";
    l->line = 7 + static_cast<int>(p.locations.size());
    l->function = "forward";
    l->operators = operators;
    p.locations.push_back(std::move(l));
    return static_cast<int>(p.locations.size()) - 1;
  }

  ProgramT p;
  bool initializing = false; ///< commands go to `initialize`
  std::vector<Constant> constants;
};

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_PACKAGE_TESTPROGRAMS_H
