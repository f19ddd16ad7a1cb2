//===- BindExecutable.cpp - open packages and call them -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Copies.h"
#include "anabranch/Inspect.h"
#include "anabranch/Trace.h"
#include "calls/ArrayCall.h"
#include "calls/CallTimes.h"
#include "calls/FrozenWeights.h"
#include "calls/Program.h"
#include "fallback/TorchCalls.h"
#include "module/Bind.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "support/Items.h"
#include "tensors/Overlap.h"
#include "tensors/Torch.h"

#include <limits>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <numeric>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

using View = std::tuple<int32_t, std::string, std::vector<int64_t>>;

std::string inspect(const std::string &path) {
  Expected<std::string> text = inspectPackage(path);
  check(text.status());
  return *text;
}

/// Ints, and tensors without plain memory on the CPU, share no memory.
bool shareArguments(nb::object values, const std::vector<size_t> &written) {
  if (!PyList_Check(values.ptr()) && !PyTuple_Check(values.ptr()))
    throw nb::type_error("expected a list or a tuple of values");
  SequenceItems items(values.ptr());
  auto count = static_cast<size_t>(sequenceSize(values.ptr()));
  const Torch &torch = Torch::get();
  std::vector<TensorView> tensors(count);
  for (size_t i = 0; i < count; ++i) {
    dlpack::Tensor tensor;
    if (!torch.isTensor(items.data()[i]))
      continue;
    if (!torch.view(items.data()[i], tensor)) {
      PyErr_Clear();
      continue;
    }
    std::optional<DType> dtype = fromDLPack(tensor.dtype);
    if (dtype && tensor.device.type == dlpack::cpuDevice)
      tensors[i] = viewOf(tensor, *dtype);
  }
  for (size_t number : written)
    if (number >= count)
      throw nb::value_error("no argument of this number");
  return shareMemory(tensors, written);
}

/// Arguments that are missing map inputs to arguments one to one.
Calling checkedCalling(const Executable &executable, nb::object passed,
                       const std::vector<int32_t> &copied, int64_t arguments,
                       const std::vector<View> &views) {
  size_t inputs = executable.inputs().size();
  Calling calling;
  calling.passed.resize(inputs);
  std::iota(calling.passed.begin(), calling.passed.end(), 0);
  if (!passed.is_none())
    calling.passed = nb::cast<std::vector<int32_t>>(passed);
  calling.arguments = arguments < 0 ? inputs : size_t(arguments);
  calling.copied.resize(inputs);
  if (calling.passed.size() != inputs)
    throw nb::value_error("the package has another number of inputs");
  for (int32_t argument : calling.passed)
    if (argument < 0 || size_t(argument) >= calling.arguments)
      throw nb::value_error("an input without an argument");
  for (int32_t input : copied) {
    if (input < 0 || size_t(input) >= inputs)
      throw nb::value_error("no input of this number");
    calling.copied[input] = true;
  }
  for (const auto &[output, method, argument] : views) {
    if (output < 0 || size_t(output) >= executable.outputs().size())
      throw nb::value_error("no output of this number");
    calling.views.push_back({size_t(output), method, argument});
  }
  return calling;
}

void open(Program *self, const std::string &path, const std::string &device,
          int threads, bool checkHashes, nb::object passed,
          const std::vector<int32_t> &copied, int64_t arguments,
          const std::vector<View> &views, const std::string &target,
          bool hostCalls, const Program *like, const std::string &trust) {
  OpenOptions options;
  options.device = device;
  options.threads = threads;
  options.checkHashes = checkHashes;
  options.target = target;
  options.trust = trust;
  options.hostCalls = hostCalls ? &TorchCalls::get() : nullptr;
  if (like)
    options.like = like->share();
  auto opened = [&] {
    GilReleased released;
    return Executable::open(path, options);
  }();
  check(opened.status());
  new (self) Program(
      *opened, checkedCalling(**opened, passed, copied, arguments, views));
}

/// tp_call: the callable is the C object itself, without a Python wrapper. One
/// list of arguments, as AOTAutograd passes them, or the arguments themselves.
PyObject *callProgram(PyObject *self, PyObject *arguments, PyObject *keywords) {
  if (keywords && !isEmptyDict(keywords)) {
    PyErr_SetString(PyExc_TypeError, "arguments are passed by position");
    return nullptr;
  }
  auto *program = nb::inst_ptr<Program>(nb::handle(self));
  bool boxed =
      tupleSize(arguments) == 1 && PyList_Check(tupleItem(arguments, 0));
  return program->call(boxed ? tupleItem(arguments, 0) : arguments);
}

nb::object callOnArrays(const Program &self, nb::object inputs,
                        nb::object make) {
  CallTimer timer;
  PyObject *results = runArrays(self.get(), inputs.ptr(), make.ptr());
  if (!results)
    throw nb::python_error();
  timer.stop();
  return nb::steal(results);
}

/// The buckets as (upper end, calls), and the seconds of all calls.
nb::tuple callTimes() {
  const CallTimes &times = CallTimes::get();
  nb::list buckets;
  for (size_t i = 0; i <= CallTimes::ends.size(); ++i) {
    bool isLast = i == CallTimes::ends.size();
    double end =
        isLast ? std::numeric_limits<double>::infinity() : CallTimes::ends[i];
    buckets.append(nb::make_tuple(end, times.count(i)));
  }
  return nb::make_tuple(buckets, times.seconds());
}

/// The first value of a state, copied; None for any other input.
nb::object initialBytes(const Program &self, size_t input) {
  const std::vector<InputInfo> &inputs = self.get().inputs();
  if (input >= inputs.size())
    throw nb::index_error("no input of this number");
  const InputInfo &info = inputs[input];
  if (!info.initial)
    return nb::none();
  size_t bytes = itemSize(info.dtype);
  for (int64_t size : info.shape)
    bytes *= size_t(size);
  return nb::bytearray(info.initial, bytes);
}

nb::list describeInputs(const Program &self) {
  nb::list list;
  for (const InputInfo &input : self.get().inputs()) {
    nb::dict entry;
    entry["name"] = input.name;
    entry["scalar"] = input.isScalar;
    entry["mutated"] = input.mutated;
    entry["state"] = input.initial != nullptr;
    entry["dtype"] = name(input.dtype);
    entry["shape"] = input.shape;
    entry["strides"] = input.strides;
    list.append(entry);
  }
  return list;
}

nb::list describeOutputs(const Program &self) {
  static const char *const kinds[] = {"tensor", "alias", "scalar", "none",
                                      "external"};
  nb::list list;
  for (const OutputInfo &output : self.get().outputs()) {
    nb::dict entry;
    entry["name"] = output.name;
    entry["kind"] = kinds[static_cast<int>(output.kind)];
    entry["input"] = output.input;
    entry["dtype"] = name(output.dtype);
    entry["shape"] = output.shape;
    entry["strides"] = output.strides;
    list.append(entry);
  }
  return list;
}

/// Others may call executables while the file is written.
void finishTrace() {
  Status status = [] {
    nb::gil_scoped_release release;
    return stopTrace();
  }();
  check(status);
}

} // namespace

void python::bindExecutable(nb::module_ &module) {
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void *>(callProgram)}, {0, nullptr}};
  nb::class_<Program> type(module, "Executable", nb::type_slots(slots),
                           nb::dynamic_attr(), nb::is_weak_referenceable());
  type.def("__init__", &open, nb::arg("path"), nb::arg("device") = "cpu",
           nb::arg("threads") = 0, nb::arg("check_hashes") = true,
           nb::arg("passed") = nb::none(),
           nb::arg("copied") = std::vector<int32_t>(),
           nb::arg("arguments") = -1, nb::arg("views") = std::vector<View>(),
           nb::arg("target") = "", nb::arg("host_calls") = true,
           nb::arg("like").none() = nb::none(), nb::arg("trust") = "")
      .def("run_arrays", &callOnArrays, nb::arg("inputs"), nb::arg("make"))
      .def("initial", &initialBytes, nb::arg("input"))
      .def_prop_ro("target",
                   [](const Program &self) { return self.get().target(); })
      .def_prop_ro("inputs", &describeInputs)
      .def_prop_ro("outputs", &describeOutputs)
      .def_prop_ro("kernels",
                   [](const Program &self) { return self.get().kernelCount(); })
      .def_prop_ro("launches",
                   [](const Program &self) { return self.get().launchCount(); })
      .def_prop_ro(
          "host_calls",
          [](const Program &self) { return self.get().hostCallCount(); })
      .def_prop_ro("cached_bytes",
                   [](const Program &self) { return self.get().cachedBytes(); })
      .def_prop_ro(
          "copied_arguments",
          [](const Program &self) { return copiedArguments(self.get()); },
          "How many arguments calls have copied, as their memory is not "
          "aligned.")
      .def("trim", [](const Program &self) { self.get().trim(); })
      .def(
          "add",
          [](const Program &self, const Program &other) {
            check(self.get().add(other.share()));
          },
          "Lets calls whose sizes fit run the programs of another executable.")
      .def("remove",
           [](const Program &self, const Program &other) {
             self.get().remove(other.get());
           })
      .def("take_only", &Program::takeOnly, nb::arg("numbers"),
           "Lets calls leave out all arguments but these; false if they can't.")
      .def_prop_ro(
          "programs",
          [](const Program &self) { return self.get().programCount(); })
      .def_prop_ro("last_use",
                   [](const Program &self) { return self.get().lastUse(); })
      .def(
          "watch",
          [](Program &self, nb::object watcher, bool all) {
            self.watch(watcher.ptr(), all);
          },
          nb::arg("watcher").none(), nb::arg("all") = false)
      .def(
          "time_calls",
          [](Program &self, nb::object listener) {
            self.timeCalls(listener.ptr());
          },
          nb::arg("listener"),
          "Calls `listener(seconds, {(operator, line): seconds})` after each "
          "call, with the times of the call and of PyTorch's operators in it, "
          "until it returns another value than True.")
      .def(
          "follow",
          [](Program &self, nb::object weights, nb::object changed) {
            nb::cast<const FrozenWeights &>(weights); // or a TypeError
            self.follow(weights.ptr(), changed.ptr());
          },
          nb::arg("weights"), nb::arg("changed"),
          "Calls `changed` before a call that finds weights changed.")
      .def(
          "adopt",
          [](Program &self, const Program &other, nb::object weights) {
            nb::cast<const FrozenWeights &>(weights);
            self.adopt(other, weights.ptr());
          },
          nb::arg("other"), nb::arg("weights"),
          "Lets calls run what another executable of the graph runs.");
  // AOTAutograd asks for this before it hands over a list.
  type.attr("_boxed_call") = true;
  module.def("compile_only", &compileOnly, nb::arg("wanted"));
  module.def("check_may_run", [] {
    if (!mayRun())
      throw nb::python_error();
  });
  module.def("share_memory", &shareArguments, nb::arg("values"),
             nb::arg("written"),
             "Whether one of the tensors with the numbers `written` may share "
             "memory with another of these values, a list or tuple.");
  module.attr("SharedMemoryError") = nb::borrow(sharedMemoryError());
  module.def("inspect", &inspect, nb::arg("package"),
             "The manifest and the program of a package as text.");
  module.def("start_trace",
             [](const std::string &path) { check(startTrace(path)); });
  module.def("stop_trace", &finishTrace);
  module.def("machine_limits", &describeMachine);
  module.def("default_threads", &defaultThreads);
  module.def("machine_facts", &machineFacts);
  module.def("memory_room", &memoryRoom);
  module.def("set_default_threads", &setDefaultThreads, nb::arg("threads"));
  module.def(
      "pin_workers", [](const std::string &where) { check(pinWorkers(where)); },
      nb::arg("where"));
  module.def("time_calls", [] { CallTimes::get().begin(); });
  module.def("call_times", &callTimes);
  module.def("runtime_version", &version);
}
