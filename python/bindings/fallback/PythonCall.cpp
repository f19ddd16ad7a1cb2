//===- PythonCall.cpp - run an operator through Python --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fallback/PythonCall.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "tensors/Overlap.h"
#include "tensors/Torch.h"

#include <cstring>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

namespace {

nb::object stolen(PyObject *object) {
  if (!object)
    throw nb::python_error();
  return nb::steal(object);
}

/// torch.float32 and its like, by the names that torch gives them.
nb::object dtypeObject(DType dtype) {
  static const char *const names[dtypeCount] = {"bool",
                                                "uint8",
                                                "int8",
                                                "int16",
                                                "int32",
                                                "int64",
                                                "float16",
                                                "bfloat16",
                                                "float32",
                                                "float64",
                                                "uint16",
                                                "uint32",
                                                "uint64",
                                                "complex32",
                                                "complex64",
                                                "complex128",
                                                "float8_e4m3fn",
                                                "float8_e5m2",
                                                "float8_e4m3fnuz",
                                                "float8_e5m2fnuz"};
  return nb::module_::import_("torch").attr(names[static_cast<int>(dtype)]);
}

nb::object memoryFormat(int64_t number) {
  static const char *const names[] = {"contiguous_format", "preserve_format",
                                      "channels_last", "channels_last_3d"};
  if (number < 0 || number > 3)
    throw nb::value_error("no memory format of this number");
  return nb::module_::import_("torch").attr(names[number]);
}

nb::object objectOf(const HostArgument &argument) {
  switch (argument.kind) {
  case HostArgument::Kind::None:
    return nb::none();
  case HostArgument::Kind::Tensor:
    return stolen(Torch::get().borrow(argument.tensor));
  case HostArgument::Kind::Int:
    return nb::int_(argument.integer);
  case HostArgument::Kind::Float:
    return nb::float_(argument.real);
  case HostArgument::Kind::Bool:
    return nb::bool_(argument.boolean);
  case HostArgument::Kind::String:
  case HostArgument::Kind::Device:
    return nb::str(argument.string);
  case HostArgument::Kind::DType:
    return dtypeObject(argument.dtype);
  case HostArgument::Kind::Layout:
    return nb::module_::import_("torch").attr("strided");
  case HostArgument::Kind::MemoryFormat:
    return memoryFormat(argument.integer);
  case HostArgument::Kind::List: {
    nb::list list;
    for (size_t i = 0; i < argument.itemCount; ++i)
      list.append(objectOf(argument.items[i]));
    return list;
  }
  }
  return nb::none();
}

nb::object invoke(const TorchOperator &op, const HostCall &call) {
  nb::list positional;
  nb::dict keywords;
  for (size_t i = 0; i < call.argumentCount; ++i) {
    nb::object value = objectOf(call.arguments[i]);
    if (i < op.arguments.size() && op.arguments[i].keywordOnly)
      keywords[op.arguments[i].name.c_str()] = value;
    else
      positional.append(value);
  }
  return stolen(
      PyObject_Call(op.callable, nb::tuple(positional).ptr(), keywords.ptr()));
}

/// The tensor's memory; a copy where it is a view of an argument or where
/// plain memory would not say what it means.
dlpack::ManagedTensor *takeResult(nb::object tensor, const HostCall &call) {
  const Torch &torch = Torch::get();
  if (!torch.isTensor(tensor.ptr()))
    throw nb::type_error("an operator gave back what is no tensor");
  tensor = tensor.attr("resolve_conj")().attr("resolve_neg")();
  dlpack::Tensor view;
  if (!torch.view(tensor.ptr(), view))
    throw nb::python_error();
  std::optional<DType> dtype = fromDLPack(view.dtype);
  if (!dtype)
    throw nb::type_error("an operator gave back a dtype that nothing takes");
  if (overlaps(viewOf(view, *dtype), call.arguments, call.argumentCount))
    tensor = tensor.attr("clone")();
  dlpack::ManagedTensor *managed = torch.fromObject(tensor.ptr());
  if (!managed)
    throw nb::python_error();
  return managed;
}

void collect(nb::object result, const HostCall &call,
             std::vector<dlpack::ManagedTensor *> &results) {
  bool several =
      nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result);
  nb::list values;
  if (several)
    values = nb::list(result);
  else
    values.append(result);
  if (values.size() != call.resultCount)
    throw std::runtime_error(std::string(call.op) +
                             " gave back another number of results");
  for (size_t i = 0; i < call.resultCount; ++i)
    if (call.wanted[i])
      results[i] = takeResult(values[i], call);
}

} // namespace

Status python::callByPython(const TorchOperator &op, const HostCall &call,
                            std::vector<dlpack::ManagedTensor *> &results) {
  GilTaken gil;
  // The shim swallows errors but leaves Python's, where a mode of torch took
  // the call there.
  PyErr_Clear();
  try {
    collect(invoke(op, call), call, results);
  } catch (nb::python_error &error) {
    error.restore();
    return stashError();
  } catch (nb::builtin_exception &error) {
    return Status(StatusCode::HostError, error.what());
  } catch (std::exception &error) {
    return Status(StatusCode::HostError, error.what());
  }
  return {};
}
