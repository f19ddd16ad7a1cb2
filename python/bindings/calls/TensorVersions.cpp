//===- TensorVersions.cpp - numbers for what tensors hold -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/TensorVersions.h"
#include "anabranch/Layout.h"

#include <algorithm>
#include <cstring>
#include <nanobind/nanobind.h>

using namespace anabranch;
using namespace anabranch::python;
namespace nb = nanobind;

namespace {

/// A hash of a few words of a tensor, spread over its memory.
uint64_t sampleOf(const TensorView &view) {
  constexpr size_t words = 8;
  constexpr uint64_t golden = 0x9e3779b97f4a7c15;
  size_t bytes = size_t(spanOf(view)) * itemSize(view.dtype);
  const char *data = static_cast<const char *>(view.data);
  uint64_t hash = bytes;
  auto add = [&](size_t at, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, count);
    hash = (hash ^ word) * golden;
    hash ^= hash >> 29;
  };
  if (bytes <= words * sizeof(uint64_t)) {
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t))
      add(at, std::min(sizeof(uint64_t), bytes - at));
    return hash;
  }
  // Multiples of the golden ratio, cut to fractions, lie far apart.
  size_t places = bytes / sizeof(uint64_t);
  for (size_t i = 1; i <= words; ++i)
    add(((i * golden >> 32) * places >> 32) * sizeof(uint64_t),
        sizeof(uint64_t));
  return hash;
}

Ref weakStorageOf(PyObject *tensor) {
  static PyObject *const kind = [] {
    nb::object found = nb::module_::import_("torch.multiprocessing.reductions")
                           .attr("StorageWeakRef");
    return found.release().ptr();
  }();
  return Ref(nb::handle(kind)(nb::handle(tensor).attr("untyped_storage")())
                 .release()
                 .ptr());
}

} // namespace

uint64_t TensorVersions::of(size_t input, PyObject *tensor,
                            const TensorView &view) {
  static uint64_t newest = 0;
  Known &known = inputs[input];
  TensorState state;
  if (!TensorStates::get().read(tensor, true, state)) {
    PyErr_Clear();
    return 0;
  }
  uint64_t sample = sampleOf(view);
  if (known.version && state == known.state && sample == known.sample)
    return known.version;
  try {
    if (nb::cast<bool>(nb::handle(tensor).attr("is_inference")()))
      return known.version = 0;
    if (state.storage != known.state.storage)
      known.storage = weakStorageOf(tensor);
  } catch (nb::python_error &) {
    known.version = 0;
    return 0;
  }
  known.state = state;
  known.sample = sample;
  return known.version = ++newest;
}
