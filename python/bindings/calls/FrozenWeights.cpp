//===- FrozenWeights.cpp - tensors whose values were frozen ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/FrozenWeights.h"
#include "tensors/Torch.h"

#include <algorithm>
#include <nanobind/nanobind.h>

using namespace anabranch::python;
using namespace anabranch;
namespace nb = nanobind;

namespace {

/// Borrowed: the GIL is held, and nothing runs that could free it. Null where
/// the tensor is gone.
PyObject *referent(const Ref &reference) {
  // The stable ABI is that of 3.12, also with the headers of a later version.
#if PY_VERSION_HEX >= 0x030D0000 && !defined(Py_LIMITED_API)
  PyObject *found = nullptr;
  if (PyWeakref_GetRef(reference.get(), &found) > 0)
    Py_DECREF(found);
  return found;
#else
  PyObject *found = PyWeakref_GetObject(reference.get());
  return found == Py_None ? nullptr : found;
#endif
}

} // namespace

void FrozenWeights::add(PyObject *tensor) {
  nb::handle self(tensor);
  Weight weight;
  weight.reference.reset(PyWeakref_NewRef(tensor, nullptr));
  if (!weight.reference)
    throw nb::python_error();
  nb::object weak = nb::module_::import_("torch.multiprocessing.reductions")
                        .attr("StorageWeakRef");
  weight.storage.reset(weak(self.attr("untyped_storage")()).release().ptr());
  weight.counts = !nb::cast<bool>(self.attr("is_inference")());
  dlpack::Tensor view;
  if (!TensorStates::get().read(tensor, weight.counts, weight.state) ||
      !Torch::get().view(tensor, view))
    throw nb::python_error();
  weight.dtype = view.dtype;
  weight.sizes.assign(view.shape, view.shape + view.rank);
  weight.strides.assign(view.strides, view.strides + view.rank);
  weights.push_back(std::move(weight));
}

bool FrozenWeights::isUnchanged(const Weight &weight) {
  PyObject *tensor = referent(weight.reference);
  if (!tensor)
    return false;
  TensorState now;
  if (!TensorStates::get().read(tensor, weight.counts, now)) {
    PyErr_Clear();
    return false;
  }
  return now == weight.state;
}

bool FrozenWeights::unchanged() const {
  return std::all_of(weights.begin(), weights.end(), isUnchanged);
}

std::vector<size_t> FrozenWeights::changed() const {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < weights.size(); ++i)
    if (!isUnchanged(weights[i]))
      numbers.push_back(i);
  return numbers;
}

bool FrozenWeights::hasLayout(const Weight &weight) {
  PyObject *tensor = referent(weight.reference);
  dlpack::Tensor view;
  if (!tensor)
    return false;
  if (!Torch::get().view(tensor, view)) {
    PyErr_Clear();
    return false;
  }
  auto equals = [&](const std::vector<int64_t> &known, const int64_t *now) {
    return std::equal(known.begin(), known.end(), now, now + view.rank);
  };
  return view.dtype.code == weight.dtype.code &&
         view.dtype.bits == weight.dtype.bits &&
         equals(weight.sizes, view.shape) &&
         equals(weight.strides, view.strides);
}

bool FrozenWeights::sameLayout() const {
  return std::all_of(weights.begin(), weights.end(), [](const Weight &weight) {
    return isUnchanged(weight) || hasLayout(weight);
  });
}

PyObject *FrozenWeights::tensor(size_t number) const {
  PyObject *found = referent(weights[number].reference);
  return Py_NewRef(found ? found : Py_None);
}
