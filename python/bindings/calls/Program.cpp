//===- Program.cpp - an executable that Python calls ----------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// The path that every call takes: no allocation of ours for programs of usual
// size, one type check and one DLPack call for each tensor.

#include "calls/Program.h"
#include "calls/CallTimes.h"
#include "calls/FrozenWeights.h"
#include "calls/TorchProfiler.h"
#include "fallback/HostTimes.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "support/Items.h"
#include "support/SmallArray.h"
#include "support/Stable.h"
#include "tensors/Overlap.h"
#include "tensors/TensorState.h"
#include "tensors/Torch.h"

#include <algorithm>
#include <chrono>
#include <nanobind/nanobind.h>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

using namespace anabranch;
using namespace anabranch::python;

namespace {

constexpr size_t usualCount = 32;

/// Makes the results' tensors while the GIL is still held, then lets it go:
/// from there on the program runs.
class ResultAllocator : public OutputAllocator {
public:
  ResultAllocator(PyObject **objects) : objects(objects) {}

  Status allocate(OutputValue *outputs, size_t count) override {
    const Torch &torch = Torch::get();
    for (; made < count; ++made) {
      objects[made] = nullptr;
      if (outputs[made].kind != OutputValue::Kind::Tensor)
        continue;
      objects[made] = torch.allocate(outputs[made].tensor);
      if (!objects[made])
        return stashError();
    }
    released.emplace();
    return {};
  }

  void takeGilBack() { released.reset(); }

  void drop() {
    for (size_t i = 0; i < made; ++i)
      Py_XDECREF(objects[i]);
    made = 0;
  }

private:
  PyObject **objects;
  size_t made = 0;
  std::optional<GilReleased> released;
};

/// The object for one output; a new reference, or null with an error set.
PyObject *resultObject(const OutputValue &output, PyObject *made,
                       PyObject *alias) {
  switch (output.kind) {
  case OutputValue::Kind::Tensor:
    return made;
  case OutputValue::Kind::Alias:
    return Py_NewRef(alias);
  case OutputValue::Kind::Scalar:
    return PyLong_FromLongLong(output.scalar);
  case OutputValue::Kind::None:
    return Py_NewRef(Py_None);
  case OutputValue::Kind::External:
    return Torch::get().toObject(
        static_cast<dlpack::ManagedTensor *>(output.handle));
  }
  return nullptr;
}

/// Puts a view of result `view.output` in its place, or the number that it is.
bool applyView(PyObject *results, const OutputView &view) {
  PyObject *given = tupleItem(results, Py_ssize_t(view.output));
  if (view.method == "item") {
    PyObject *number = PyObject_CallMethod(given, "item", nullptr);
    return number &&
           PyTuple_SetItem(results, Py_ssize_t(view.output), number) == 0;
  }
  PyObject *shape = PyTuple_New(Py_ssize_t(view.argument.size()));
  for (size_t i = 0; shape && i < view.argument.size(); ++i)
    fillTuple(shape, Py_ssize_t(i), PyLong_FromLongLong(view.argument[i]));
  PyObject *viewed =
      shape ? PyObject_CallMethod(given, view.method.c_str(), "(O)", shape)
            : nullptr;
  Py_XDECREF(shape);
  if (!viewed)
    return false;
  return PyTuple_SetItem(results, Py_ssize_t(view.output), viewed) == 0;
}

thread_local bool onlyCompiles = false;

} // namespace

void python::compileOnly(bool wanted) { onlyCompiles = wanted; }

bool python::mayRun() {
  if (onlyCompiles)
    PyErr_SetString(PyExc_RuntimeError, "compiled, and not to be run");
  return !onlyCompiles;
}

/// Contiguous copies of arguments, which live as long as the call.
struct anabranch::python::CallScratch {
  struct Copy {
    size_t input;
    PyObject *object; ///< borrowed: the argument
    TensorView tensor;
    Ref copy;
  };
  std::vector<Copy> copies;
};

Program::Program(std::shared_ptr<const Executable> executable, Calling calling)
    : executable(std::move(executable)), argumentCount(calling.arguments),
      outputCount(this->executable->outputs().size()),
      versions(this->executable->inputs().size()), views(calling.views) {
  const std::vector<InputInfo> &inputs = this->executable->inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    plans.push_back({calling.passed[i], calling.passed[i], inputs[i].isScalar,
                     calling.copied[i], inputs[i].watched});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].mutated && !inputs[i].isScalar)
      written.push_back(i);
  kept.resize(argumentCount);
  std::iota(kept.begin(), kept.end(), 0);
}

bool Program::takeOnly(const std::vector<int32_t> &numbers) {
  std::vector<int32_t> places;
  for (const InputPlan &plan : plans) {
    auto found = std::find(numbers.begin(), numbers.end(), plan.argument);
    if (found == numbers.end())
      return false;
    places.push_back(int32_t(found - numbers.begin()));
  }
  for (size_t i = 0; i < plans.size(); ++i)
    plans[i].place = places[i];
  kept = numbers;
  return true;
}

bool Program::typeError(size_t input, const char *wanted, PyObject *got) const {
  PyErr_Format(PyExc_TypeError, "argument %d (%s): expected %s, got %s",
               int(plans[input].argument),
               executable->inputs()[input].name.c_str(), wanted,
               typeName(got).c_str());
  return false;
}

bool Program::viewError(size_t input, PyObject *tensor) const {
  PyErr_Clear();
  PyObject *device = PyObject_GetAttrString(tensor, "device");
  PyObject *layout = PyObject_GetAttrString(tensor, "layout");
  if (device && layout)
    PyErr_Format(PyExc_ValueError,
                 "argument %d (%s): expected a strided tensor on the CPU, got "
                 "one of layout %S on device %S",
                 int(plans[input].argument),
                 executable->inputs()[input].name.c_str(), layout, device);
  Py_XDECREF(device);
  Py_XDECREF(layout);
  return false;
}

bool Program::readScalar(PyObject *object, size_t input,
                         InputValue &value) const {
  if (!PyLong_Check(object))
    return typeError(input, "an int", object);
  value.kind = InputValue::Kind::Scalar;
  value.scalar = PyLong_AsLongLong(object);
  return value.scalar != -1 || !PyErr_Occurred();
}

bool Program::readTensor(PyObject *object, size_t input, InputValue &value,
                         CallScratch &scratch) const {
  const Torch &torch = Torch::get();
  if (!torch.isTensor(object))
    return typeError(input, "a tensor", object);
  dlpack::Tensor tensor;
  if (!torch.view(object, tensor))
    return viewError(input, object);
  if (tensor.device.type != dlpack::cpuDevice)
    return viewError(input, object);
  std::optional<DType> dtype = fromDLPack(tensor.dtype);
  if (!dtype)
    return typeError(input, "a tensor of a known dtype", object);
  value.kind = InputValue::Kind::Tensor;
  value.tensor = viewOf(tensor, *dtype);
  if (!plans[input].copied || isContiguous(tensor))
    return true;
  Ref copy(PyObject_CallMethod(object, "contiguous", nullptr));
  if (!copy || !torch.view(copy.get(), tensor))
    return false;
  scratch.copies.push_back({input, object, value.tensor, std::move(copy)});
  value.tensor = viewOf(tensor, *dtype);
  return true;
}

/// The runtime sees copies only, so it cannot tell that an argument which the
/// program writes shares memory with another one.
bool Program::checkCopies(const InputValue *inputs,
                          const CallScratch &scratch) const {
  std::vector<size_t> writtenCopies;
  for (const CallScratch::Copy &copy : scratch.copies)
    if (executable->inputs()[copy.input].mutated)
      writtenCopies.push_back(copy.input);
  if (writtenCopies.empty())
    return true;
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < plans.size(); ++i)
    tensors.push_back(plans[i].scalar ? TensorView() : inputs[i].tensor);
  for (const CallScratch::Copy &copy : scratch.copies)
    tensors[copy.input] = copy.tensor;
  if (!shareMemory(tensors, writtenCopies))
    return true;
  PyErr_SetString(sharedMemoryError(),
                  "an argument that the program writes shares memory with "
                  "another argument; pass a copy of one");
  return false;
}

/// Copies what the program wrote into copies to the arguments.
bool Program::writeBack(const CallScratch &scratch) const {
  for (const CallScratch::Copy &copy : scratch.copies) {
    if (!executable->inputs()[copy.input].mutated)
      continue;
    // A tensor that wants a gradient takes no update otherwise.
    Ref plain(PyObject_CallMethod(copy.object, "detach", nullptr));
    if (!plain ||
        !Ref(PyObject_CallMethod(plain.get(), "copy_", "O", copy.copy.get())))
      return false;
  }
  return true;
}

void Program::watch(PyObject *object, bool all) {
  watchesAll = all;
  PyObject *old = watcher;
  watcher = object == Py_None ? nullptr : Py_NewRef(object);
  Py_XDECREF(old);
}

void Program::follow(PyObject *object, PyObject *changed) {
  Ref oldObject(std::exchange(weightsObject, Ref(Py_NewRef(object)))),
      oldChanged(std::exchange(weightsChanged, Ref(Py_NewRef(changed))));
  weights = nanobind::inst_ptr<FrozenWeights>(nanobind::handle(object));
}

void Program::adopt(const Program &other, PyObject *object) {
  executable = other.executable;
  follow(object, weightsChanged.get());
}

bool Program::followWeights() {
  if (!weights || weights->unchanged())
    return true;
  Ref changed(Py_NewRef(weightsChanged.get()));
  return Ref(PyObject_CallNoArgs(changed.get())) != nullptr;
}

/// The watcher finds all arguments by their numbers. It may replace itself
/// meanwhile.
bool Program::tellWatcher(PyObject **items, bool leavesOut, double seconds,
                          bool hasProgram) const {
  PyObject *arguments = PyList_New(Py_ssize_t(argumentCount));
  if (!arguments)
    return false;
  for (size_t i = 0; i < argumentCount; ++i)
    fillList(arguments, Py_ssize_t(i),
             Py_NewRef(leavesOut ? Py_None : items[i]));
  for (size_t i = 0; leavesOut && i < kept.size(); ++i)
    PyList_SetItem(arguments, kept[i], Py_NewRef(items[i]));
  PyObject *function = Py_NewRef(watcher);
  PyObject *result = PyObject_CallFunction(function, "OdO", arguments, seconds,
                                           hasProgram ? Py_True : Py_False);
  Py_DECREF(function);
  Py_DECREF(arguments);
  Py_XDECREF(result);
  return result;
}

void Program::tellTimes(const HostTimes &times) {
  Ref listener(Py_NewRef(timeListener.get()));
  Ref goesOn(times.tell(listener.get()));
  if (!goesOn)
    PyErr_WriteUnraisable(listener.get());
  // An object of the old listener may call this program while it is freed.
  if (!goesOn || goesOn.get() != Py_True)
    Ref freed(std::exchange(timeListener, Ref()));
}

void Program::refuse(const Status &status, const InputValue *inputs) const {
  std::vector<TensorView> tensors;
  tensors.reserve(plans.size());
  for (size_t i = 0; i < plans.size(); ++i)
    tensors.push_back(inputs[i].tensor);
  PyObject *type = nullptr;
  if (status.code() == StatusCode::InvalidArgument &&
      shareMemory(tensors, written))
    type = sharedMemoryError();
  if (type)
    PyErr_SetString(type, status.message().c_str());
  else
    setError(status);
}

PyObject *Program::call(PyObject *arguments) {
  if (!mayRun() || !followWeights())
    return nullptr;
  CallTimer timer;
  // Another thread may have a program adopted while this one runs.
  const std::shared_ptr<const Executable> running = executable;
  size_t given = size_t(sequenceSize(arguments));
  bool leavesOut = given != argumentCount && given == kept.size();
  if (given != argumentCount && !leavesOut)
    return PyErr_Format(PyExc_TypeError, "expected %zu arguments, got %zu",
                        argumentCount, given);
  SequenceItems found(arguments);
  PyObject **items = found.data();
  auto itemOf = [&](size_t input) {
    return items[leavesOut ? plans[input].place : plans[input].argument];
  };
  followTorchProfiler();
  std::optional<HostTimes> times;
  if (timeListener)
    times.emplace();

  CallScratch scratch;
  SmallArray<InputValue, usualCount> inputs(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    new (&inputs[i]) InputValue();
    PyObject *item = itemOf(i);
    if (plans[i].scalar ? !readScalar(item, i, inputs[i])
                        : !readTensor(item, i, inputs[i], scratch))
      return nullptr;
    if (plans[i].watched)
      inputs[i].version = versions.of(i, item, inputs[i].tensor);
  }

  if (!scratch.copies.empty() && !checkCopies(inputs.data(), scratch))
    return nullptr;

  SmallArray<OutputValue, usualCount> outputs(outputCount);
  for (size_t i = 0; i < outputCount; ++i)
    new (&outputs[i]) OutputValue();
  SmallArray<PyObject *, usualCount> objects(outputCount);
  bool hasProgram =
      watcher && running->hasProgramFor(inputs.data(), plans.size());
  bool tells = watcher && (watchesAll || !hasProgram);
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = tells ? Clock::now() : Clock::time_point();
  ResultAllocator allocator(objects.data());
  Status status = running->run(inputs.data(), plans.size(), outputs.data(),
                               outputCount, allocator);
  double seconds =
      tells ? std::chrono::duration<double>(Clock::now() - begin).count() : 0;
  allocator.takeGilBack();
  if (!status.ok()) {
    allocator.drop();
    refuse(status, inputs.data());
    return nullptr;
  }

  if (!scratch.copies.empty() && !writeBack(scratch)) {
    allocator.drop();
    return nullptr;
  }
  for (size_t input : written)
    TensorStates::get().wrote(itemOf(input));

  PyObject *results = PyTuple_New(Py_ssize_t(outputCount));
  bool failed = !results;
  for (size_t i = 0; i < outputCount; ++i) {
    const OutputValue &output = outputs[i];
    PyObject *alias = output.kind == OutputValue::Kind::Alias
                          ? itemOf(output.input)
                          : nullptr;
    PyObject *object = resultObject(output, objects[i], alias);
    failed = failed || !object;
    if (results)
      fillTuple(results, Py_ssize_t(i), object);
    else
      Py_XDECREF(object);
  }
  for (size_t i = 0; !failed && i < views.size(); ++i)
    failed = !applyView(results, views[i]);
  failed = failed || (tells && watcher &&
                      !tellWatcher(items, leavesOut, seconds, hasProgram));
  if (failed)
    Py_CLEAR(results);
  else
    timer.stop();
  if (results && times && timeListener)
    tellTimes(*times);
  return results;
}
