//===- TensorState.cpp - whether a tensor was changed ---------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch has no C function for a tensor's version or storage. So the place of
// each pointer is looked for in two tensors whose pointers Python knows, and is
// believed only if both have it there.

#include "tensors/TensorState.h"

#include <cstring>
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <optional>

using namespace anabranch::python;
namespace nb = nanobind;

namespace {

/// How far PyTorch's objects are looked through: no further than they reach.
constexpr size_t objectBytes = 40, tensorBytes = 160;
/// Where a version counter has its number: after its vtable and its reference
/// counts.
constexpr size_t numberAt = 16;

template <typename T = const void *>
T loadAt(const void *object, size_t offset) {
  T found;
  std::memcpy(static_cast<void *>(&found),
              static_cast<const char *>(object) + offset, sizeof(found));
  return found;
}

const void *address(nb::handle number) {
  uintptr_t value = nb::cast<uintptr_t>(number);
  return loadAt(&value, 0);
}

/// The offset at which both objects have their wanted value.
template <typename T>
std::optional<size_t> findOffset(const void *const (&object)[2],
                                 const T (&wanted)[2], size_t bytes) {
  for (size_t at = sizeof(void *); at < bytes; at += sizeof(void *))
    if (loadAt<T>(object[0], at) == wanted[0] &&
        loadAt<T>(object[1], at) == wanted[1])
      return at;
  return std::nullopt;
}

/// Leaves inference mode as long as it lives: PyTorch gives tensors that are
/// made in that mode no version.
class NoInferenceMode {
public:
  NoInferenceMode()
      : mode(nb::module_::import_("torch").attr("inference_mode")(false)) {
    mode.attr("__enter__")();
  }
  ~NoInferenceMode() {
    try {
      mode.attr("__exit__")(nb::none(), nb::none(), nb::none());
    } catch (nb::python_error &error) {
      error.discard_as_unraisable("leaving inference_mode(False)");
    }
  }
  NoInferenceMode(const NoInferenceMode &) = delete;
  NoInferenceMode &operator=(const NoInferenceMode &) = delete;

private:
  nb::object mode;
};

} // namespace

const TensorStates &TensorStates::get() {
  static const TensorStates *states = new TensorStates;
  return *states;
}

TensorStates::TensorStates() {
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library)
    return;
  // torch::autograd::impl::version_counter and bump_version
  counter = reinterpret_cast<Counter>(dlsym(
      library, "_ZN5torch8autograd4impl15version_counterERKN2at6TensorE"));
  bump = reinterpret_cast<Bump>(
      dlsym(library, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE"));
  try {
    const NoInferenceMode normal;
    nb::object make = nb::module_::import_("torch").attr("ones");
    // Numbers that no other field of a tensor has.
    nb::object first = make(9).attr("narrow")(0, 7, 1),
               second = make(20).attr("narrow")(0, 13, 6);
    for (int i = 0; i < 3; ++i)
      second.attr("add_")(1);
    isQuick = counter && findOffsets(first.ptr(), second.ptr()) &&
              agrees(first.ptr()) && agrees(second.ptr());
  } catch (nb::python_error &) {
    isQuick = false;
  }
}

bool TensorStates::findOffsets(PyObject *first, PyObject *second) {
  nb::handle tensors[2] = {first, second};
  const void *objects[2], *inner[2], *storages[2], *data[2];
  int64_t offsets[2];
  for (int i = 0; i < 2; ++i) {
    nb::object storage = tensors[i].attr("untyped_storage")();
    objects[i] = tensors[i].ptr();
    inner[i] = address(tensors[i].attr("_cdata"));
    storages[i] = address(storage.attr("_cdata"));
    data[i] = address(storage.attr("data_ptr")());
    offsets[i] = nb::cast<int64_t>(tensors[i].attr("storage_offset")());
  }
  auto tensorFound = findOffset(objects, inner, objectBytes),
       storageFound = findOffset(inner, storages, objectBytes),
       offsetFound = findOffset(inner, offsets, tensorBytes),
       dataFound = findOffset(storages, data, objectBytes);
  if (!tensorFound || !storageFound || !offsetFound || !dataFound)
    return false;
  tensorAt = *tensorFound;
  storageAt = *storageFound;
  offsetAt = *offsetFound;
  dataAt = *dataFound;
  const void *place = counter(reinterpret_cast<char *>(first) + tensorAt);
  counterAt = size_t(static_cast<const char *>(place) -
                     static_cast<const char *>(inner[0]));
  return counterAt < tensorBytes;
}

/// Whether the quick way sees what Python's attributes say.
bool TensorStates::agrees(PyObject *tensor) const {
  TensorStates quick = *this;
  quick.isQuick = true;
  TensorState seen, said;
  return quick.read(tensor, true, seen) && readAttributes(tensor, true, said) &&
         seen == said;
}

bool TensorStates::read(PyObject *tensor, bool counts, TensorState &out) const {
  if (!isQuick)
    return readAttributes(tensor, counts, out);
  const void *inner = loadAt(tensor, tensorAt);
  const void *versions = loadAt(inner, counterAt);
  out.storage = loadAt(inner, storageAt);
  out.data = out.storage ? loadAt(out.storage, dataAt) : nullptr;
  out.offset = loadAt<int64_t>(inner, offsetAt);
  out.version = counts && versions ? loadAt<uint32_t>(versions, numberAt) : -1;
  return true;
}

bool TensorStates::readAttributes(PyObject *tensor, bool counts,
                                  TensorState &out) const {
  nb::handle self(tensor);
  try {
    nb::object storage = self.attr("untyped_storage")();
    out.storage = address(storage.attr("_cdata"));
    out.data = address(storage.attr("data_ptr")());
    out.offset = nb::cast<int64_t>(self.attr("storage_offset")());
    out.version = -1;
    if (counts && !nb::cast<bool>(self.attr("is_inference")()))
      out.version = nb::cast<int64_t>(self.attr("_version"));
    return true;
  } catch (nb::python_error &error) {
    error.restore();
    return false;
  }
}

void TensorStates::wrote(PyObject *tensor) const {
  if (!isQuick || !bump)
    return;
  try {
    bump(reinterpret_cast<char *>(tensor) + tensorAt);
  } catch (...) {
    // Nobody counts the writes to an inference tensor.
    return;
  }
}
