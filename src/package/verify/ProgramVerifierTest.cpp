//===- ProgramVerifierTest.cpp - one unsound program per rule -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "package/verify/ProgramVerifier.h"
#include "package/folder/Reader.h"
#include "support/package/TestPrograms.h"

#include <functional>
#include <gtest/gtest.h>

namespace anabranch::testing {

namespace {

/// x -> increment -> arena -> increment -> output, with a call and an event
/// beside.
ProgramMaker sound() {
  ProgramMaker m;
  m.p.slots = 1;
  m.p.slot_sources = {SlotSource(0, 0, 0)};
  int x = m.input("x", {slot(0), fixed(4)});
  int w = m.constant("w", {fixed(4)});
  int a = m.arena(0, {fixed(16)}, 64);
  int y = m.output({fixed(16)});
  int packed = m.persistent(0, {fixed(4)}, 64);
  int made = m.external({fixed(4)});
  m.initializing = true;
  m.launch("twice", {w}, {packed}, fixed(4));
  m.initializing = false;
  m.launch("increment", {x, packed}, {a}, slot(0));
  m.record(0, 0);
  m.launch("increment", {a}, {y}, fixed(16));
  m.wait(0, m.stream());
  CallT call;
  call.op = "aten::topk";
  auto argument = std::make_unique<ArgumentT>();
  argument->kind = ArgKind::Tensor;
  argument->buffer = a;
  call.arguments.push_back(std::move(argument));
  call.results = {made, -1};
  m.push(std::move(call), 1);
  m.otherOutput(OutputKind::External).buffer = made;
  m.p.needs_libtorch = true;
  m.input("of known size", {fixed(4)});
  return m;
}

int inputOfKnownSize(ProgramT &p) {
  return static_cast<int>(p.buffers.size()) - 1;
}

LaunchT &launch(ProgramT &p, int command) {
  return *p.streams[0]->commands[command]->action.AsLaunch();
}
CallT &call(ProgramT &p) { return *p.streams[1]->commands[1]->action.AsCall(); }

/// Makes the call's argument a view of its 16 elements.
void view(ProgramT &p, std::vector<Size> shape, std::vector<Size> strides,
          Size offset) {
  auto view = std::make_unique<ViewT>();
  view->offset = std::make_unique<Size>(offset);
  view->shape = std::move(shape);
  view->strides = std::move(strides);
  call(p).arguments[0]->view = std::move(view);
}

struct Case {
  const char *reason;
  std::function<void(ProgramT &)> spoil;
};

const Case cases[] = {
    {"slot_limits limits a size that no input defines",
     [](ProgramT &p) { p.slot_limits = {SlotLimit(7, 0, 1)}; }},
    {"another kernel ABI", [](ProgramT &p) { p.abi_version = 99; }},
    {"events is out of range", [](ProgramT &p) { p.events = -1; }},
    {"events is out of range", [](ProgramT &p) { p.events = 1 << 30; }},
    {"slots is out of range", [](ProgramT &p) { p.slots = -5; }},
    {"slots is out of range", [](ProgramT &p) { p.slots = 1 << 30; }},
    {"slots has an entry that nothing fills", [](ProgramT &p) { p.slots = 2; }},
    {"slot_sources is out of range",
     [](ProgramT &p) { p.slot_sources[0] = SlotSource(7, 0, 0); }},
    {"slot_sources is out of range",
     [](ProgramT &p) { p.slot_sources[0] = SlotSource(0, -1, 0); }},
    {"slot_sources names a dimension",
     [](ProgramT &p) { p.slot_sources[0] = SlotSource(0, 0, 2); }},
    {"input 0 names a size slot",
     [](ProgramT &p) { p.inputs[0]->shape[0] = slot(1); }},
    {"input 0 has a negative dimension",
     [](ProgramT &p) { p.inputs[0]->shape[1] = fixed(-4); }},
    {"input 0 has strides that do not fit",
     [](ProgramT &p) { p.inputs[0]->strides = {fixed(1)}; }},
    {"input 0 has an unknown dtype",
     [](ProgramT &p) { p.inputs[0]->dtype = static_cast<package::DType>(77); }},
    {"input 0 has too many dimensions",
     [](ProgramT &p) { p.inputs[0]->shape.resize(100, fixed(1)); }},
    {"buffer 0 is an input that is not there",
     [](ProgramT &p) { p.buffers[0]->index = 2; }},
    {"buffer 1 is a constant without a name",
     [](ProgramT &p) { p.buffers[1]->name = ""; }},
    {"buffer 1 has an unknown kind",
     [](ProgramT &p) { p.buffers[1]->kind = static_cast<BufferKind>(9); }},
    {"buffer 2 has no place", [](ProgramT &p) { p.buffers[2]->bytes.reset(); }},
    {"buffer 2 has a bad offset",
     [](ProgramT &p) { *p.buffers[2]->offset = fixed(-64); }},
    {"buffer 2 has a bad offset",
     [](ProgramT &p) { *p.buffers[2]->offset = fixed(4); }},
    {"buffer 2 reaches beyond its memory",
     [](ProgramT &p) { *p.buffers[2]->offset = fixed(64); }},
    {"buffer 2 reaches beyond its memory",
     [](ProgramT &p) { *p.buffers[2]->offset = fixed(INT64_MAX / 64 * 64); }},
    {"buffer 2 has a negative size",
     [](ProgramT &p) { *p.buffers[2]->bytes = fixed(-1); }},
    {"buffer 2 has elements beyond its bytes",
     [](ProgramT &p) { p.buffers[2]->shape[0] = fixed(17); }},
    {"buffer 2 has elements beyond its bytes",
     [](ProgramT &p) { p.buffers[2]->shape[0] = fixed(INT64_MAX); }},
    {"buffer 2 has elements beyond its bytes",
     [](ProgramT &p) { p.buffers[2]->strides = {fixed(-1)}; }},
    {"buffer 2 grows with a size that its bytes do not count",
     [](ProgramT &p) { p.buffers[2]->shape[0] = slot(0); }},
    {"buffer 2 grows with a size that its bytes do not count",
     [](ProgramT &p) {
       p.buffers[2]->shape[0] = slot(0);
       p.buffers[2]->strides = {fixed(3)};
     }},
    {"buffer 2 lies in memory that the program lacks",
     [](ProgramT &p) { p.arena_bytes.reset(); }},
    {"buffer 3 is an output that is not there",
     [](ProgramT &p) { p.buffers[3]->index = 1; }},
    {"buffer 3 reaches beyond the tensor that it is a view of",
     [](ProgramT &p) {
       p.buffers.push_back(std::make_unique<BufferT>(*p.buffers[3]));
       p.buffers[3]->shape[0] = fixed(17);
       p.outputs[0]->buffer = 6;
     }},
    {"buffer 0 reaches beyond the tensor that it is a view of",
     [](ProgramT &p) {
       p.inputs[0]->shape[0] = fixed(3);
       p.buffers[0]->shape = {fixed(13)};
     }},
    {"buffer 4 is persistent and has a dynamic place",
     [](ProgramT &p) { *p.buffers[4]->bytes = slot(0); }},
    {"persistent_bytes is not a size",
     [](ProgramT &p) { *p.persistent_bytes = slot(0); }},
    {"buffer 3 is an output that is not there",
     [](ProgramT &p) { p.outputs[0]->buffer = 99; }},
    {"output 1 has no buffer", [](ProgramT &p) { p.outputs[1]->buffer = 99; }},
    {"output 0 has a buffer whose memory is not its own",
     [](ProgramT &p) { p.outputs[0]->buffer = 2; }},
    {"output 1 has a buffer that no call makes",
     [](ProgramT &p) { p.outputs[1]->buffer = 2; }},
    {"output 1 is an input that is not there",
     [](ProgramT &p) {
       p.outputs[1]->kind = OutputKind::Alias;
       p.outputs[1]->index = 3;
     }},
    {"output 1 has no value",
     [](ProgramT &p) { p.outputs[1]->kind = OutputKind::Scalar; }},
    {"output 1 has an unknown kind",
     [](ProgramT &p) { p.outputs[1]->kind = static_cast<OutputKind>(44); }},
    {"a kernel has no name", [](ProgramT &p) { p.kernels[0]->name = ""; }},
    {"launches a kernel that is not there",
     [](ProgramT &p) { launch(p, 0).kernel = 2; }},
    {"has a bad number of inputs",
     [](ProgramT &p) { launch(p, 0).input_count = 4; }},
    {"uses a buffer that is not there",
     [](ProgramT &p) { launch(p, 0).buffers[0] = -1; }},
    {"writes to a constant", [](ProgramT &p) { launch(p, 0).buffers[2] = 1; }},
    {"writes to an input that is not mutated",
     [](ProgramT &p) { launch(p, 0).buffers[2] = 0; }},
    {"writes to memory that all calls share",
     [](ProgramT &p) { launch(p, 0).buffers[2] = 4; }},
    {"streams[0], command 0, names a size slot",
     [](ProgramT &p) { launch(p, 0).sizes = {slot(1)}; }},
    {"initialize[0], command 0, needs a size before any call",
     [](ProgramT &p) {
       p.initialize[0]->commands[0]->action.AsLaunch()->sizes = {slot(0)};
     }},
    {"uses a call's memory before any call",
     [](ProgramT &p) {
       p.initialize[0]->commands[0]->action.AsLaunch()->buffers[0] = 0;
     }},
    {"initializes with an input that is mutated",
     [](ProgramT &p) {
       p.inputs[1]->mutated = true;
       p.initialize[0]->commands[0]->action.AsLaunch()->buffers[0] =
           inputOfKnownSize(p);
     }},
    {"command 2, has a location that is not there",
     [](ProgramT &p) { p.streams[0]->commands[2]->location = 50; }},
    {"has no action",
     [](ProgramT &p) { p.streams[0]->commands[0]->action.Reset(); }},
    {"names an event that is not there",
     [](ProgramT &p) {
       p.streams[0]->commands[1]->action.AsRecord()->event = 1;
     }},
    {"names an event that is not there",
     [](ProgramT &p) {
       p.streams[1]->commands[0]->action.AsWait()->event = -1;
     }},
    {"records an event for the second time",
     [](ProgramT &p) {
       RecordT again;
       p.streams[0]->commands[2]->action.Set(again);
     }},
    {"wait for each other forever",
     [](ProgramT &p) {
       p.events = 2;
       p.streams[1]->commands[0]->action.AsWait()->event = 1;
     }},
    {"calls an operator without a name", [](ProgramT &p) { call(p).op = ""; }},
    {"has a result whose memory is not its own",
     [](ProgramT &p) { call(p).results = {5, 5}; }},
    {"has a result whose memory is not its own",
     [](ProgramT &p) { call(p).results = {2}; }},
    {"is used before the call that makes it",
     [](ProgramT &p) { call(p).results = {-1}; }},
    {"is used before the call that makes it",
     [](ProgramT &p) { launch(p, 2).buffers[0] = 5; }},
    {"has an argument of unknown kind",
     [](ProgramT &p) {
       call(p).arguments[0]->kind = static_cast<ArgKind>(55);
     }},
    {"has an int argument without a value",
     [](ProgramT &p) { call(p).arguments[0]->kind = ArgKind::Int; }},
    {"nests its lists too deeply",
     [](ProgramT &p) {
       for (int i = 0; i < 20; ++i) {
         auto list = std::make_unique<ArgumentT>();
         list->kind = ArgKind::List;
         list->items.push_back(std::move(call(p).arguments[0]));
         call(p).arguments[0] = std::move(list);
       }
     }},
    {"writes to an input that is not mutated",
     [](ProgramT &p) {
       call(p).arguments[0]->written = true;
       call(p).arguments[0]->buffer = 0;
     }},
    {"writes to a constant",
     [](ProgramT &p) {
       call(p).arguments[0]->written = true;
       call(p).arguments[0]->buffer = 1;
     }},
    {"writes to memory of another operator",
     [](ProgramT &p) {
       call(p).arguments[0]->written = true;
       call(p).arguments[0]->buffer = 5;
     }},
    {"use the same memory and no event orders them",
     [](ProgramT &p) {
       call(p).arguments[0]->written = true;
       call(p).arguments[0]->buffer = 2;
     }},
    {"has a view that ends past its buffer",
     [](ProgramT &p) { view(p, {fixed(3)}, {fixed(5)}, fixed(6)); }},
    {"has a view that ends past its buffer",
     [](ProgramT &p) { view(p, {fixed(3)}, {fixed(5)}, fixed(-1)); }},
    {"has a view that ends past its buffer",
     [](ProgramT &p) { view(p, {fixed(2)}, {fixed(-1)}, fixed(1)); }},
    {"has a view without an offset, or not a stride for each size",
     [](ProgramT &p) { view(p, {fixed(3)}, {}, fixed(0)); }},
    {"needs_libtorch contradicts the commands",
     [](ProgramT &p) { p.needs_libtorch = false; }},
    {"has too many streams",
     [](ProgramT &p) {
       while (p.streams.size() < 80)
         p.streams.push_back(std::make_unique<StreamT>());
     }},
    {"copies between different types",
     [](ProgramT &p) {
       CopyT copy;
       copy.source = 2;
       copy.destination = 5;
       p.streams[0]->commands[2]->action.Set(copy);
     }},
};

/// The launches of `sound` with static sizes, as a super kernel.
ProgramMaker soundSuper() {
  ProgramMaker m = sound();
  ProgramT &p = m.p;
  p.streams[0]->commands.erase(p.streams[0]->commands.begin());
  int b = m.arena(64, {fixed(16)}, 64);
  m.launch("increment", {2}, {b}, fixed(16));
  m.super("layer", 2);
  return m;
}

SuperT &super(ProgramT &p) {
  return *p.streams[0]->commands[1]->action.AsSuper();
}

void ask(ProgramT &p, std::vector<int> before, std::vector<int> after) {
  auto order = std::make_unique<OrderT>();
  order->before = std::move(before);
  order->after = std::move(after);
  super(p).orders.push_back(std::move(order));
}

const Case superCases[] = {
    {"has no name", [](ProgramT &p) { super(p).name = ""; }},
    {"has no launch", [](ProgramT &p) { super(p).launches.clear(); }},
    {"not a location for each",
     [](ProgramT &p) { super(p).locations.pop_back(); }},
    {"launch 1, has a location that is not there",
     [](ProgramT &p) { super(p).locations[1] = 77; }},
    {"has a bad number of streams", [](ProgramT &p) { super(p).streams = 0; }},
    {"has a bad number of streams", [](ProgramT &p) { super(p).streams = 63; }},
    {"orders launches that do not exist, or that run in another order",
     [](ProgramT &p) { ask(p, {1}, {1}); }},
    {"orders launches that do not exist, or that run in another order",
     [](ProgramT &p) { ask(p, {0}, {2}); }},
    {"orders launches that do not exist, or that run in another order",
     [](ProgramT &p) { ask(p, {-1}, {1}); }},
    {"orders launches that do not exist, or that run in another order",
     [](ProgramT &p) { ask(p, {}, {1}); }},
    {"orders launches that do not exist, or that run in another order",
     [](ProgramT &p) { ask(p, {0}, {}); }},
    {"launch 1, launches a kernel that is not there",
     [](ProgramT &p) { super(p).launches[1]->kernel = -1; }},
    {"launch 1, uses a buffer that is not there",
     [](ProgramT &p) { super(p).launches[1]->buffers[0] = 99; }},
    {"launch 0, writes to a constant",
     [](ProgramT &p) { super(p).launches[0]->buffers[1] = 1; }},
    {"is used before the call that makes it",
     [](ProgramT &p) { super(p).launches[0]->buffers[0] = 5; }},
    {"is a super kernel before any call",
     [](ProgramT &p) {
       p.initialize[0]->commands.push_back(
           std::move(p.streams[0]->commands[1]));
       p.streams[0]->commands.pop_back();
     }},
};

TEST(VerifyProgram, SaysWhatIsWrongInASuperKernel) {
  Status s = verifyProgram(soundSuper().p);
  EXPECT_TRUE(s.ok()) << s.message();
  for (const Case &c : superCases) {
    ProgramMaker m = soundSuper();
    c.spoil(m.p);
    s = verifyProgram(m.p);
    EXPECT_NE(s.message().find(c.reason), std::string::npos)
        << "expected: " << c.reason << "\ngot: " << s.message();
    std::string bytes = serializeProgram(m.p);
    EXPECT_FALSE(parseProgram(bytes.data(), bytes.size()).ok()) << c.reason;
  }
}

TEST(VerifyProgram, TakesSuperKernelsOfSymbolicSizes) {
  ProgramMaker m = soundSuper();
  for (auto &launch : super(m.p).launches)
    launch->sizes = {slot(0)};
  super(m.p).launches[0]->buffers[0] = 0; // has a size of slot 0
  Status s = verifyProgram(m.p);
  EXPECT_TRUE(s.ok()) << s.message();
}

/// A branch between two regions, the second of which has one itself.
ProgramMaker soundBranch() {
  ProgramMaker m;
  int flag = m.input("flag", {}, package::DType::Bool);
  int x = m.input("x", {fixed(16)});
  int y = m.arena(0, {fixed(16)}, 64);
  for (const char *kernel : {"increment", "twice"}) {
    ProgramMaker region;
    int flag = region.input("flag", {}, package::DType::Bool);
    int x = region.input("x", {fixed(16)});
    int y = region.output({fixed(16)});
    if (m.p.regions.empty())
      region.branch(flag, {1, 1}, {flag, x}, {y});
    else
      region.launch(kernel, {x}, {y}, fixed(16));
    m.region(std::move(region));
  }
  m.branch(flag, {0, 1}, {flag, x}, {y});
  m.launch("increment", {y}, {m.output({fixed(16)})}, fixed(16));
  return m;
}

BranchT &branch(ProgramT &p) {
  return *p.streams[0]->commands[0]->action.AsBranch();
}

const Case branchCases[] = {
    {"runs a region that is not there",
     [](ProgramT &p) { branch(p).regions[1] = 2; }},
    {"runs a region that is not there",
     [](ProgramT &p) { branch(*p.regions[0]).regions[0] = 0; }},
    {"is no choice between two regions",
     [](ProgramT &p) { branch(p).regions.pop_back(); }},
    {"is no choice between two regions",
     [](ProgramT &p) { branch(p).predicate.reset(); }},
    {"has a predicate that is not one bool",
     [](ProgramT &p) { branch(p).predicate->buffer = 1; }},
    {"has no predicate",
     [](ProgramT &p) { branch(p).predicate->kind = ArgKind::None; }},
    {"runs a region with other arguments or results",
     [](ProgramT &p) { branch(p).arguments.pop_back(); }},
    {"runs a region with other arguments or results",
     [](ProgramT &p) { branch(p).results.clear(); }},
    {"passes a region an argument of another type",
     [](ProgramT &p) { branch(p).arguments[0]->buffer = 1; }},
    {"passes a region an argument of another kind",
     [](ProgramT &p) {
       branch(p).arguments[1]->kind = ArgKind::Int;
       branch(p).arguments[1]->int_value = std::make_unique<Size>(fixed(1));
     }},
    {"has a result of another type than its region",
     [](ProgramT &p) { p.regions[1]->buffers[2]->shape = {fixed(8)}; }},
    {"writes to an input that is not mutated",
     [](ProgramT &p) { branch(p).results[0] = 1; }},
    {"writes over an argument of its regions",
     [](ProgramT &p) {
       p.inputs[1]->mutated = true;
       branch(p).results[0] = 1;
     }},
    {"runs a region that writes an argument",
     [](ProgramT &p) { p.regions[1]->inputs[1]->mutated = true; }},
    {"does not fit it",
     [](ProgramT &p) {
       p.regions[0]->regions.push_back(std::make_unique<ProgramT>());
     }},
    {"does not fit it", [](ProgramT &p) { p.regions[1]->records = {"tag"}; }},
    {"launches a kernel that is not there",
     [](ProgramT &p) { launch(*p.regions[1], 0).kernel = 7; }},
    {"whose result is no memory of the program",
     [](ProgramT &p) {
       OutputT &output = *p.regions[0]->outputs[0];
       output.kind = OutputKind::Alias;
       output.index = 1;
       p.regions[0]->streams[0]->commands.clear();
       p.regions[0]->buffers.pop_back();
     }},
    {"branches before any call",
     [](ProgramT &p) {
       p.initialize.push_back(std::make_unique<StreamT>());
       p.initialize[0]->commands.push_back(
           std::move(p.streams[0]->commands[0]));
       p.streams[0]->commands.erase(p.streams[0]->commands.begin());
     }},
};

TEST(VerifyProgram, SaysWhatIsWrongInABranch) {
  Status s = verifyProgram(soundBranch().p);
  EXPECT_TRUE(s.ok()) << s.message();
  for (const Case &c : branchCases) {
    ProgramMaker m = soundBranch();
    c.spoil(m.p);
    s = verifyProgram(m.p);
    EXPECT_NE(s.message().find(c.reason), std::string::npos)
        << "expected: " << c.reason << "\ngot: " << s.message();
  }
}

/// A call of a region, which gets the only element of `n` as the length of its
/// result.
ProgramMaker soundContinuation() {
  ProgramMaker m, rest;
  rest.scalar("n", 0);
  rest.p.slots = 1;
  rest.launch("iota", {}, {rest.output({slot(0)})}, slot(0));
  int n = m.input("n", {fixed(1)}, package::DType::I64);
  int made = m.external({fixed(-1)});
  int region = m.region(std::move(rest));
  BranchT &call = m.branch(n, {region}, {n}, {made});
  call.predicate.reset();
  call.arguments[0]->kind = ArgKind::Item;
  m.otherOutput(OutputKind::External).buffer = made;
  return m;
}

const Case continuationCases[] = {
    {"passes an item of what is not one number",
     [](ProgramT &p) {
       p.inputs[0]->shape = p.buffers[0]->shape = {fixed(2)};
     }},
    {"passes an item of what is not one number",
     [](ProgramT &p) {
       p.inputs[0]->dtype = p.buffers[0]->dtype = package::DType::F32;
     }},
    {"passes an item of a tensor to an operator",
     [](ProgramT &p) {
       ArgumentT &list = *branch(p).arguments[0];
       list.items.push_back(std::make_unique<ArgumentT>(list));
       list.kind = ArgKind::List;
     }},
    {"has a result of another type than its region",
     [](ProgramT &p) { p.buffers[1]->shape = {fixed(-1), fixed(2)}; }},
    {"has a result whose memory is not its own",
     [](ProgramT &p) {
       ProgramT &rest = *p.regions[0];
       rest.outputs.push_back(std::make_unique<OutputT>(*rest.outputs[0]));
       rest.outputs[1]->buffer = static_cast<int>(rest.buffers.size());
       rest.buffers.push_back(std::make_unique<BufferT>(*rest.buffers[0]));
       rest.buffers.back()->index = 1;
       branch(p).results.push_back(1);
     }},
    {"contradicts the commands", [](ProgramT &p) { p.needs_libtorch = true; }},
    {"has a negative dimension",
     [](ProgramT &p) { p.regions[0]->buffers[0]->shape = {fixed(-1)}; }},
    {"has no condition",
     [](ProgramT &p) { p.checks.push_back(std::make_unique<CheckT>()); }},
};

TEST(VerifyProgram, SaysWhatIsWrongInAContinuation) {
  Status s;
  using package::DType;
  for (DType dtype : {DType::I64, DType::F64, DType::Bool}) {
    ProgramMaker m = soundContinuation();
    m.p.inputs[0]->dtype = m.p.buffers[0]->dtype = dtype;
    s = verifyProgram(m.p);
    EXPECT_TRUE(s.ok()) << s.message();
  }
  for (const Case &c : continuationCases) {
    ProgramMaker m = soundContinuation();
    c.spoil(m.p);
    s = verifyProgram(m.p);
    EXPECT_NE(s.message().find(c.reason), std::string::npos)
        << "expected: " << c.reason << "\ngot: " << s.message();
  }
}

/// A loop that carries one value, scans a tensor, and stacks another.
ProgramMaker soundLoop() {
  ProgramMaker m, body;
  int c = body.input("c", {fixed(16)}), x = body.input("x", {fixed(16)});
  body.launch("add", {c, x}, {body.output({fixed(16)})}, fixed(16));
  body.launch("twice", {c}, {body.output({fixed(16)})}, fixed(16));
  int first = m.input("c", {fixed(16)});
  int xs = m.input("xs", {fixed(3), fixed(16)});
  int result = m.arena(0, {fixed(16)}, 64),
      spare = m.arena(64, {fixed(16)}, 64);
  int stacked = m.arena(128, {fixed(3), fixed(16)}, 192);
  m.loop(m.region(std::move(body)), 3, {first}, {xs}, {result}, {stacked},
         {spare});
  return m;
}

LoopT &loop(ProgramT &p) { return *p.streams[0]->commands[0]->action.AsLoop(); }

const Case loopCases[] = {
    {"runs a region that is not there", [](ProgramT &p) { loop(p).body = 1; }},
    {"runs a region that is not there",
     [](ProgramT &p) {
       loop(p).scanned.clear();
       loop(p).stacked.clear();
       loop(p).trips.reset();
       loop(p).condition = 4;
       loop(p).body = 4;
     }},
    {"needs a condition or a number of trips",
     [](ProgramT &p) { loop(p).trips.reset(); }},
    {"scans as long as a condition holds",
     [](ProgramT &p) {
       loop(p).trips.reset();
       loop(p).condition = 0;
     }},
    {"lacks memory for what it carries",
     [](ProgramT &p) { loop(p).spare.clear(); }},
    {"runs a region with other arguments or results",
     [](ProgramT &p) { loop(p).scanned.clear(); }},
    {"passes a region an argument of another type",
     [](ProgramT &p) { loop(p).scanned[0]->buffer = 0; }},
    {"has a result of another type than its region",
     [](ProgramT &p) { loop(p).stacked[0] = loop(p).spare[0]; }},
    {"carries a value that changes its type",
     [](ProgramT &p) {
       p.regions[0]->inputs[0]->shape = {fixed(8)};
       p.regions[0]->buffers[0]->shape = {fixed(8)};
       p.inputs[0]->shape = p.buffers[0]->shape = {fixed(8)};
     }},
    {"writes over an argument of its regions",
     [](ProgramT &p) { loop(p).carried[0]->buffer = loop(p).spare[0]; }},
    {"writes over a part of what it uses",
     [](ProgramT &p) { loop(p).spare = loop(p).results; }},
};

LoopT &updates(ProgramT &p) {
  return *p.streams[0]->commands[1]->action.AsLoop();
}

/// A loop whose trips update one value where it lies.
ProgramMaker updatingLoop() {
  ProgramMaker m, body;
  int c = body.input("c", {fixed(16)}, package::DType::F32, /*mutated=*/true);
  body.launch("increment", {c}, {c}, fixed(16));
  int memory = m.arena(0, {fixed(16)}, 64);
  m.launch("twice", {m.input("x", {fixed(16)})}, {memory}, fixed(16));
  m.loop(m.region(std::move(body)), 3, {memory}, {}, {}, {}, {});
  updates(m.p).carried[0]->written = true;
  return m;
}

const Case updatingCases[] = {
    {"lacks memory for what it carries",
     [](ProgramT &p) { updates(p).spare = {0}; }},
    {"lacks memory for what it carries",
     [](ProgramT &p) { updates(p).carried[0]->written = false; }},
    {"runs a region that writes an argument",
     [](ProgramT &p) {
       updates(p).arguments.push_back(std::move(updates(p).carried[0]));
       updates(p).carried.clear();
     }},
    {"writes an argument that is no tensor",
     [](ProgramT &p) { updates(p).carried[0]->kind = ArgKind::Int; }},
    {"passes a region an argument of another type",
     [](ProgramT &p) { p.buffers[0]->shape = {fixed(8)}; }},
    {"writes to an input that is not mutated",
     [](ProgramT &p) { updates(p).carried[0]->buffer = 1; }},
};

TEST(VerifyProgram, SaysWhatIsWrongInALoopThatUpdates) {
  Status s = verifyProgram(updatingLoop().p);
  EXPECT_TRUE(s.ok()) << s.message();
  for (const Case &c : updatingCases) {
    ProgramMaker m = updatingLoop();
    c.spoil(m.p);
    s = verifyProgram(m.p);
    EXPECT_NE(s.message().find(c.reason), std::string::npos)
        << "expected: " << c.reason << "\ngot: " << s.message();
  }
}

TEST(VerifyProgram, SaysWhatIsWrongInALoop) {
  Status s = verifyProgram(soundLoop().p);
  EXPECT_TRUE(s.ok()) << s.message();
  for (const Case &c : loopCases) {
    ProgramMaker m = soundLoop();
    c.spoil(m.p);
    s = verifyProgram(m.p);
    EXPECT_NE(s.message().find(c.reason), std::string::npos)
        << "expected: " << c.reason << "\ngot: " << s.message();
  }
}

TEST(VerifyProgram, AcceptsASoundOne) {
  Status s = verifyProgram(sound().p);
  EXPECT_TRUE(s.ok()) << s.message();
}

TEST(VerifyProgram, SaysWhatIsWrong) {
  for (const Case &c : cases) {
    ProgramMaker m = sound();
    c.spoil(m.p);
    Status s = verifyProgram(m.p);
    EXPECT_FALSE(s.ok()) << c.reason;
    EXPECT_NE(s.message().find(c.reason), std::string::npos)
        << "expected: " << c.reason << "\ngot: " << s.message();
    // The same check on the bytes of a file.
    std::string bytes = serializeProgram(m.p);
    EXPECT_FALSE(parseProgram(bytes.data(), bytes.size()).ok()) << c.reason;
  }
}

} // namespace
} // namespace anabranch::testing
