//===- ArrayCall.cpp - run a program on buffers of Python objects ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/ArrayCall.h"
#include "anabranch/Layout.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "support/Items.h"
#include "tensors/Torch.h"

#include <cstring>
#include <deque>
#include <optional>
#include <string_view>

using namespace anabranch;
using namespace anabranch::python;

namespace {

std::optional<DType> dtypeNamed(const char *text) {
  for (int i = 0; text && i < dtypeCount; ++i)
    if (std::string_view(text) == name(static_cast<DType>(i)))
      return static_cast<DType>(i);
  return std::nullopt;
}

/// A buffer that is held, and its strides in elements.
class Held {
public:
  Held() = default;
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  ~Held() {
    if (held)
      PyBuffer_Release(&buffer);
  }

  /// False with a Python error set.
  bool take(PyObject *object, DType dtype, bool writable) {
    int flags = PyBUF_STRIDES | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &buffer, flags) != 0)
      return false;
    held = true;
    auto item = static_cast<Py_ssize_t>(itemSize(dtype));
    bool fits = buffer.itemsize == item;
    for (int d = 0; d < buffer.ndim; ++d) {
      strides.push_back(buffer.strides[d] / item);
      fits = fits && buffer.strides[d] % item == 0;
    }
    if (!fits)
      PyErr_Format(PyExc_ValueError,
                   "an array of %s needs elements of %zd bytes, one after the "
                   "other",
                   name(dtype), item);
    return fits;
  }
  TensorView view(DType dtype) const {
    return {buffer.buf, reinterpret_cast<const int64_t *>(buffer.shape),
            strides.data(), buffer.ndim, dtype};
  }
  void *data() const { return buffer.buf; }

private:
  Py_buffer buffer = {};
  bool held = false;
  std::vector<int64_t> strides;
};

static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));

PyObject *tupleOf(const int64_t *numbers, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; ++i)
    fillTuple(tuple, i, PyLong_FromLongLong(numbers[i]));
  return tuple;
}

/// Asks Python for the results' arrays, then lets the GIL go.
class ArrayAllocator : public OutputAllocator {
public:
  ArrayAllocator(PyObject *make, std::deque<Held> &buffers)
      : make(make), buffers(buffers) {}
  ~ArrayAllocator() override {
    for (PyObject *object : objects)
      Py_XDECREF(object);
  }

  Status allocate(OutputValue *outputs, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      objects.push_back(nullptr);
      if (outputs[i].kind == OutputValue::Kind::Tensor &&
          !makeArray(outputs[i], i))
        return stashError();
    }
    released.emplace();
    return {};
  }
  Status allocateFound(OutputValue &output, size_t index) override {
    released.reset();
    if (!makeArray(output, index))
      return stashError();
    released.emplace();
    return {};
  }
  void takeGilBack() { released.reset(); }
  PyObject *take(size_t output) {
    return std::exchange(objects[output], nullptr);
  }

  /// False with a Python error set.
  bool makeArray(OutputValue &output, size_t index) {
    TensorView &tensor = output.tensor;
    objects[index] = ask(tensor);
    if (!objects[index] ||
        !buffers.emplace_back().take(objects[index], tensor.dtype, true))
      return false;
    tensor.data = buffers.back().data();
    return true;
  }

private:
  PyObject *ask(const TensorView &tensor) const {
    PyObject *shape = tupleOf(tensor.shape, tensor.rank);
    PyObject *strides = tensor.strides ? tupleOf(tensor.strides, tensor.rank)
                                       : Py_NewRef(Py_None);
    PyObject *made = shape && strides
                         ? PyObject_CallFunction(
                               make, "sOO", name(tensor.dtype), shape, strides)
                         : nullptr;
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return made;
  }

  PyObject *make;
  std::deque<Held> &buffers;
  std::vector<PyObject *> objects;
  std::optional<GilReleased> released;
};

/// False with a Python error set.
bool readInput(PyObject *item, const InputInfo &info, std::deque<Held> &buffers,
               InputValue &value) {
  if (PyLong_Check(item)) {
    value.kind = InputValue::Kind::Scalar;
    value.scalar = PyLong_AsLongLong(item);
    return value.scalar != -1 || !PyErr_Occurred();
  }
  PyObject *object;
  const char *text;
  if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "Os", &object, &text)) {
    PyErr_SetString(PyExc_TypeError, "an input is an int or (buffer, dtype)");
    return false;
  }
  std::optional<DType> dtype = dtypeNamed(text);
  if (!dtype) {
    PyErr_Format(PyExc_TypeError, "no program takes arrays of %s", text);
    return false;
  }
  Held &held = buffers.emplace_back();
  if (!held.take(object, *dtype, info.mutated))
    return false;
  value.kind = InputValue::Kind::Tensor;
  value.tensor = held.view(*dtype);
  return true;
}

/// Copies a tensor that PyTorch made into an array, and releases the tensor. A
/// new reference, or null with an error set.
PyObject *arrayOf(const OutputValue &output, size_t number,
                  ArrayAllocator &allocator) {
  const Torch &torch = Torch::get();
  PyObject *tensor =
      torch.toObject(static_cast<dlpack::ManagedTensor *>(output.handle));
  PyObject *dense =
      tensor ? PyObject_CallMethod(tensor, "contiguous", nullptr) : nullptr;
  Py_XDECREF(tensor);
  dlpack::ManagedTensor *found = dense ? torch.fromObject(dense) : nullptr;
  Py_XDECREF(dense);
  if (!found)
    return nullptr;
  OutputValue made;
  made.tensor = viewOf(found->tensor, output.tensor.dtype);
  const void *from = made.tensor.data;
  made.tensor.strides = nullptr;
  size_t bytes =
      static_cast<size_t>(spanOf(made.tensor)) * itemSize(made.tensor.dtype);
  bool succeeded = allocator.makeArray(made, number);
  if (succeeded && bytes)
    std::memcpy(made.tensor.data, from, bytes);
  found->deleter(found);
  return succeeded ? allocator.take(number) : nullptr;
}

/// The object for one output; a new reference, or null with an error set.
PyObject *resultObject(const OutputValue &output, size_t number,
                       ArrayAllocator &allocator, PyObject *inputs) {
  switch (output.kind) {
  case OutputValue::Kind::Tensor:
    return allocator.take(number);
  case OutputValue::Kind::Alias: {
    PyObject *item = sequenceItem(inputs, output.input);
    return Py_NewRef(PyTuple_Check(item) ? tupleItem(item, 0) : item);
  }
  case OutputValue::Kind::Scalar:
    return PyLong_FromLongLong(output.scalar);
  case OutputValue::Kind::None:
    return Py_NewRef(Py_None);
  case OutputValue::Kind::External:
    return arrayOf(output, number, allocator);
  }
  return nullptr;
}

} // namespace

PyObject *python::runArrays(const Executable &executable, PyObject *inputs,
                            PyObject *make) {
  if (!PyList_Check(inputs) && !PyTuple_Check(inputs)) {
    PyErr_SetString(PyExc_TypeError, "expected a list of inputs");
    return nullptr;
  }
  const std::vector<InputInfo> &infos = executable.inputs();
  auto count = static_cast<size_t>(sequenceSize(inputs));
  if (count != infos.size())
    return PyErr_Format(PyExc_TypeError, "expected %zu inputs, got %zu",
                        infos.size(), count);
  std::deque<Held> buffers;
  std::vector<InputValue> values(count);
  for (size_t i = 0; i < count; ++i)
    if (!readInput(sequenceItem(inputs, i), infos[i], buffers, values[i]))
      return nullptr;
  std::vector<OutputValue> outputs(executable.outputs().size());
  ArrayAllocator allocator(make, buffers);
  Status status = executable.run(values.data(), count, outputs.data(),
                                 outputs.size(), allocator);
  allocator.takeGilBack();
  if (!status.ok()) {
    setError(status);
    return nullptr;
  }
  PyObject *results = PyList_New(static_cast<Py_ssize_t>(outputs.size()));
  for (size_t i = 0; results && i < outputs.size(); ++i) {
    PyObject *object = resultObject(outputs[i], i, allocator, inputs);
    if (object)
      fillList(results, static_cast<Py_ssize_t>(i), object);
    else
      Py_CLEAR(results);
  }
  return results;
}
