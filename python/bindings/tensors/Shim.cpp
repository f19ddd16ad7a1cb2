//===- Shim.cpp - libtorch's stable C functions, as found -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "tensors/Shim.h"

#include <dlfcn.h>
#include <optional>

using namespace anabranch;
using namespace anabranch::python;

namespace {

class Finder {
public:
  explicit Finder(void *library) : library(library) {}

  template <typename Function> void find(const char *name, Function &out) {
    out = reinterpret_cast<Function>(dlsym(library, name));
    complete = complete && out;
  }

  /// The value of a constant, which libtorch gives by a function.
  void number(const char *name, int32_t &out) {
    int32_t (*function)() = nullptr;
    find(name, function);
    if (function)
      out = function();
  }

  bool complete = true;

private:
  void *library;
};

void findFunctions(Finder &f, Shim &shim) {
  f.find("torch_call_dispatcher", shim.call);
  f.find("aoti_torch_create_tensor_from_blob", shim.tensorFromBlob);
  f.find("aoti_torch_empty_strided", shim.emptyStrided);
  f.find("aoti_torch_delete_tensor_object", shim.deleteTensor);
  f.find("aoti_torch_is_defined", shim.isDefined);
  f.find("aoti_torch_get_data_ptr", shim.dataPointer);
  f.find("aoti_torch_get_dim", shim.rank);
  f.find("aoti_torch_get_sizes", shim.sizes);
  f.find("aoti_torch_get_strides", shim.strides);
  f.find("aoti_torch_get_dtype", shim.dtype);
  f.find("aoti_torch_get_layout", shim.layout);
  f.find("aoti_torch_clone", shim.clone);
  f.find("torch_new_string_handle", shim.newString);
  f.find("torch_delete_string", shim.deleteString);
  f.find("torch_new_list_reserve_size", shim.newList);
  f.find("torch_list_push_back", shim.pushBack);
  f.find("torch_list_size", shim.listSize);
  f.find("torch_list_get_item", shim.listItem);
  f.find("torch_delete_list", shim.deleteList);
  f.find("torch_new_stable_ivalue", shim.newWord);
  f.find("torch_delete_stable_ivalue", shim.deleteWord);
}

void findNumbers(Finder &f, Shim &shim) {
  static const char *const dtypes[dtypeCount] = {
      "aoti_torch_dtype_bool",
      "aoti_torch_dtype_uint8",
      "aoti_torch_dtype_int8",
      "aoti_torch_dtype_int16",
      "aoti_torch_dtype_int32",
      "aoti_torch_dtype_int64",
      "aoti_torch_dtype_float16",
      "aoti_torch_dtype_bfloat16",
      "aoti_torch_dtype_float32",
      "aoti_torch_dtype_float64",
      "aoti_torch_dtype_uint16",
      "aoti_torch_dtype_uint32",
      "aoti_torch_dtype_uint64",
      "aoti_torch_dtype_complex32",
      "aoti_torch_dtype_complex64",
      "aoti_torch_dtype_complex128",
      "aoti_torch_dtype_float8_e4m3fn",
      "aoti_torch_dtype_float8_e5m2",
      "aoti_torch_dtype_float8_e4m3fnuz",
      "aoti_torch_dtype_float8_e5m2fnuz"};
  static const char *const formats[4] = {
      "aoti_torch_memory_format_contiguous_format",
      "aoti_torch_memory_format_preserve_format",
      "aoti_torch_memory_format_channels_last",
      "aoti_torch_memory_format_channels_last_3d"};
  for (int i = 0; i < dtypeCount; ++i)
    f.number(dtypes[i], shim.dtypes[i]);
  for (int i = 0; i < 4; ++i)
    f.number(formats[i], shim.memoryFormats[i]);
  f.number("aoti_torch_device_type_cpu", shim.cpu);
  f.number("aoti_torch_layout_strided", shim.strided);
}

std::optional<Shim> load() {
  // Only a libtorch that Python has loaded already: never a second one.
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library)
    return std::nullopt;
  Shim shim;
  Finder finder(library);
  findFunctions(finder, shim);
  findNumbers(finder, shim);
  if (!finder.complete)
    return std::nullopt;
  shim.failure = reinterpret_cast<const char *(*)()>(
      dlsym(library, "torch_exception_get_what_without_backtrace"));
  shim.version = uint64_t(2) << 56 | uint64_t(13) << 48;
  return shim;
}

} // namespace

const Shim *Shim::get() {
  static const std::optional<Shim> shim = load();
  return shim ? &*shim : nullptr;
}
