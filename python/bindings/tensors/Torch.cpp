//===- Torch.cpp - PyTorch as this process has it -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "tensors/Torch.h"
#include "anabranch/Layout.h"
#include "tensors/NewTensor.h"
#include <algorithm>
#include <memory>
#include <nanobind/nanobind.h>
#include <tuple>
#include <vector>

using namespace anabranch;
using namespace anabranch::python;
namespace nb = nanobind;

namespace {

struct DTypeRow {
  DType dtype;
  dlpack::DataType dlpack;
};

constexpr DTypeRow rows[dtypeCount] = {
    {DType::Bool, {dlpack::Bool, 8, 1}},
    {DType::U8, {dlpack::UInt, 8, 1}},
    {DType::I8, {dlpack::Int, 8, 1}},
    {DType::I16, {dlpack::Int, 16, 1}},
    {DType::I32, {dlpack::Int, 32, 1}},
    {DType::I64, {dlpack::Int, 64, 1}},
    {DType::F16, {dlpack::Float, 16, 1}},
    {DType::BF16, {dlpack::BFloat, 16, 1}},
    {DType::F32, {dlpack::Float, 32, 1}},
    {DType::F64, {dlpack::Float, 64, 1}},
    {DType::U16, {dlpack::UInt, 16, 1}},
    {DType::U32, {dlpack::UInt, 32, 1}},
    {DType::U64, {dlpack::UInt, 64, 1}},
    {DType::C32, {dlpack::Complex, 32, 1}},
    {DType::C64, {dlpack::Complex, 64, 1}},
    {DType::C128, {dlpack::Complex, 128, 1}},
    {DType::F8E4M3FN, {dlpack::Float8E4M3FN, 8, 1}},
    {DType::F8E5M2, {dlpack::Float8E5M2, 8, 1}},
    {DType::F8E4M3FNUZ, {dlpack::Float8E4M3FNUZ, 8, 1}},
    {DType::F8E5M2FNUZ, {dlpack::Float8E5M2FNUZ, 8, 1}},
};

/// float8_e8m0fnu. A graph reads the exponents of such scales from their bytes.
constexpr dlpack::DataType exponents = {14, 8, 1};

/// The DLPack allocator's error becomes the Python error.
void setAllocationError(void *, const char *, const char *message) {
  PyErr_SetString(PyExc_MemoryError, message);
}

} // namespace

std::optional<DType> python::fromDLPack(dlpack::DataType dtype) {
  // The two that nearly every argument has.
  if (dtype.code == dlpack::Float && dtype.bits == 32 && dtype.lanes == 1)
    return DType::F32;
  if (dtype.code == dlpack::Int && dtype.bits == 64 && dtype.lanes == 1)
    return DType::I64;
  for (const DTypeRow &row : rows)
    if (row.dlpack.code == dtype.code && row.dlpack.bits == dtype.bits &&
        row.dlpack.lanes == dtype.lanes)
      return row.dtype;
  if (dtype.code == exponents.code && dtype.bits == exponents.bits &&
      dtype.lanes == exponents.lanes)
    return DType::U8;
  return std::nullopt;
}

dlpack::DataType python::toDLPack(DType dtype) {
  return rows[static_cast<int>(dtype)].dlpack;
}

TensorView python::viewOf(const dlpack::Tensor &tensor, DType dtype) {
  TensorView view;
  view.data = static_cast<char *>(tensor.data) + tensor.byteOffset;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  view.rank = tensor.rank;
  view.dtype = dtype;
  return view;
}

const Torch &Torch::get() {
  // Leaked: tensors may be freed after static destructors have run.
  static const Torch *torch = new Torch();
  return *torch;
}

Torch::Torch() {
  nb::object module = nb::module_::import_("torch");
  nb::object tensor = module.attr("Tensor");
  nb::object parameter = module.attr("nn").attr("Parameter");
  nb::object capsule =
      nb::getattr(tensor, "__dlpack_c_exchange_api__", nb::none());
  if (!capsule.is_none())
    api = static_cast<const dlpack::ExchangeAPI *>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::exchangeCapsule));
  PyErr_Clear();
  const auto *header = reinterpret_cast<const dlpack::ExchangeHeader *>(api);
  while (header && header->version.major != dlpack::majorVersion)
    header = header->previous;
  api = reinterpret_cast<const dlpack::ExchangeAPI *>(header);
  if (!api || !api->tensorFromObject)
    throw nb::import_error("this PyTorch has no DLPack C exchange API of "
                           "version 1; Anabranch needs torch 2.10 or newer");
  tensorType = reinterpret_cast<PyTypeObject *>(tensor.release().ptr());
  parameterType = reinterpret_cast<PyTypeObject *>(parameter.release().ptr());
}

PyObject *Torch::allocate(TensorView &tensor) const {
  static const NewTensor *quick = NewTensor::get();
  return quick ? quick->make(tensor) : allocateByDLPack(tensor);
}

PyObject *Torch::allocateByDLPack(TensorView &tensor) const {
  dlpack::Tensor prototype = {};
  prototype.device.type = dlpack::cpuDevice;
  prototype.dtype = toDLPack(tensor.dtype);
  prototype.rank = tensor.rank;
  prototype.shape = const_cast<int64_t *>(tensor.shape);
  prototype.strides = const_cast<int64_t *>(tensor.strides);
  // An empty tensor keeps its strides, which a caller can see.
  bool contiguous =
      !tensor.strides || (isContiguous(tensor) && spanOf(tensor) > 0);
  int64_t elements = 0, one = 1;
  if (!contiguous) {
    // Flat memory that reaches as far as the strides, seen through them.
    elements = spanOf(tensor);
    prototype.rank = 1;
    prototype.shape = &elements;
    prototype.strides = &one;
  }
  dlpack::ManagedTensor *managed = nullptr;
  if (api->allocate(&prototype, &managed, nullptr, setAllocationError) != 0) {
    if (!PyErr_Occurred())
      PyErr_NoMemory();
    return nullptr;
  }
  if (!contiguous) {
    managed->tensor.rank = tensor.rank;
    managed->tensor.shape = const_cast<int64_t *>(tensor.shape);
    managed->tensor.strides = const_cast<int64_t *>(tensor.strides);
  }
  tensor.data =
      static_cast<char *>(managed->tensor.data) + managed->tensor.byteOffset;
  return toObject(managed);
}

PyObject *Torch::toObject(dlpack::ManagedTensor *tensor) const {
  void *object = nullptr;
  if (api->managedToObject(tensor, &object) != 0)
    return nullptr;
  return static_cast<PyObject *>(object);
}

dlpack::ManagedTensor *Torch::fromObject(PyObject *tensor) const {
  dlpack::ManagedTensor *managed = nullptr;
  if (api->managedFromObject(tensor, &managed) != 0)
    return nullptr;
  return managed;
}

PyObject *Torch::borrow(const TensorView &tensor) const {
  struct Borrowed {
    dlpack::ManagedTensor managed = {};
    std::vector<int64_t> shape, strides;
  };
  auto borrowed = std::make_unique<Borrowed>();
  borrowed->shape.assign(tensor.shape, tensor.shape + tensor.rank);
  if (tensor.strides)
    borrowed->strides.assign(tensor.strides, tensor.strides + tensor.rank);
  else
    borrowed->strides = contiguousStrides(tensor.shape, tensor.rank);
  dlpack::ManagedTensor &managed = borrowed->managed;
  managed.version = {dlpack::majorVersion, 0};
  managed.context = borrowed.get();
  managed.deleter = [](dlpack::ManagedTensor *self) {
    delete static_cast<Borrowed *>(self->context);
  };
  managed.tensor.data = tensor.data;
  managed.tensor.device.type = dlpack::cpuDevice;
  managed.tensor.rank = tensor.rank;
  managed.tensor.dtype = toDLPack(tensor.dtype);
  managed.tensor.shape = borrowed->shape.data();
  managed.tensor.strides = borrowed->strides.data();
  PyObject *object = toObject(&managed);
  // PyTorch holds it from now on.
  if (object)
    std::ignore = borrowed.release();
  return object;
}

bool python::isContiguous(const dlpack::Tensor &tensor) {
  return anabranch::isContiguous(
      {tensor.data, tensor.shape, tensor.strides, tensor.rank, DType::F32});
}
