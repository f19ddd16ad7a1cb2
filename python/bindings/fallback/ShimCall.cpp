//===- ShimCall.cpp - run an operator through libtorch's C shim -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "fallback/ShimCall.h"
#include "anabranch/Layout.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "support/SmallArray.h"
#include "tensors/Overlap.h"
#include "tensors/Shim.h"
#include "tensors/Torch.h"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace anabranch;
using namespace anabranch::python;
using Kind = SchemaType::Kind;

namespace {

ShimWord wordOf(ShimHandle handle) {
  return reinterpret_cast<ShimWord>(handle);
}

ShimHandle handleOf(ShimWord word) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a word of the stack holds it.
  return reinterpret_cast<ShimHandle>(word);
}

template <typename T> ShimWord bitsOf(T value) {
  ShimWord word = 0;
  std::memcpy(&word, &value, sizeof(value));
  return word;
}

/// Whether an argument of this type can be passed as words.
bool carries(const SchemaType &type) {
  switch (type.kind) {
  case Kind::Tensor:
  case Kind::Int:
  case Kind::Float:
  case Kind::Bool:
  case Kind::String:
  case Kind::DType:
  case Kind::Layout:
  case Kind::MemoryFormat:
  case Kind::Device:
    return true;
  case Kind::Optional:
    // An absent generator is the default one, all that a graph can hold.
    return type.inner->kind == Kind::Generator || carries(*type.inner);
  case Kind::List:
    return type.inner->kind != Kind::List && carries(*type.inner);
  case Kind::Generator:
  case Kind::Other:
    return false;
  }
  return false;
}

/// Frees what a word owns that was never handed over.
void drop(const Shim &shim, const SchemaType &type, ShimWord word) {
  switch (type.kind) {
  case Kind::Tensor:
    shim.deleteTensor(handleOf(word));
    break;
  case Kind::String:
    shim.deleteString(handleOf(word));
    break;
  case Kind::List:
    if (word)
      shim.deleteList(handleOf(word));
    break;
  case Kind::Optional:
    if (word) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): as in handleOf.
      auto *inner = reinterpret_cast<ShimWord *>(word);
      drop(shim, *type.inner, *inner);
      shim.deleteWord(inner);
    }
    break;
  default:
    break;
  }
}

bool toWord(const Shim &shim, const SchemaType &type,
            const HostArgument &argument, ShimWord &word);

bool tensorWord(const Shim &shim, const TensorView &tensor, ShimWord &word) {
  std::vector<int64_t> dense;
  if (!tensor.strides)
    dense = contiguousStrides(tensor.shape, tensor.rank);
  ShimHandle handle = nullptr;
  if (shim.tensorFromBlob(tensor.data, tensor.rank, tensor.shape,
                          tensor.strides ? tensor.strides : dense.data(), 0,
                          shim.dtypes[static_cast<int>(tensor.dtype)], shim.cpu,
                          0, &handle) != 0)
    return false;
  word = wordOf(handle);
  return true;
}

bool listWord(const Shim &shim, const SchemaType &type,
              const HostArgument &argument, ShimWord &word) {
  ShimHandle list = nullptr;
  if (argument.kind != HostArgument::Kind::List ||
      shim.newList(argument.itemCount, &list) != 0)
    return false;
  for (size_t i = 0; i < argument.itemCount; ++i) {
    ShimWord item = 0;
    if (!toWord(shim, *type.inner, argument.items[i], item)) {
      shim.deleteList(list);
      return false;
    }
    if (shim.pushBack(list, item) != 0) {
      drop(shim, *type.inner, item);
      shim.deleteList(list);
      return false;
    }
  }
  word = wordOf(list);
  return true;
}

bool optionalWord(const Shim &shim, const SchemaType &type,
                  const HostArgument &argument, ShimWord &word) {
  word = 0;
  if (argument.kind == HostArgument::Kind::None)
    return true;
  ShimWord inner = 0;
  if (!toWord(shim, *type.inner, argument, inner))
    return false;
  ShimWord *held = nullptr;
  if (shim.newWord(&held) != 0) {
    drop(shim, *type.inner, inner);
    return false;
  }
  *held = inner;
  word = reinterpret_cast<ShimWord>(held);
  return true;
}

/// False where the literal does not fit the type; Python then has a try.
bool toWord(const Shim &shim, const SchemaType &type,
            const HostArgument &argument, ShimWord &word) {
  using Argument = HostArgument::Kind;
  Argument given = argument.kind;
  switch (type.kind) {
  case Kind::Optional:
    return optionalWord(shim, type, argument, word);
  case Kind::List:
    return listWord(shim, type, argument, word);
  case Kind::Tensor:
    return given == Argument::Tensor && tensorWord(shim, argument.tensor, word);
  case Kind::Int:
    word = bitsOf(argument.integer);
    return given == Argument::Int;
  case Kind::Float:
    word = bitsOf(given == Argument::Int ? double(argument.integer)
                                         : argument.real);
    return given == Argument::Float || given == Argument::Int;
  case Kind::Bool:
    word = bitsOf(argument.boolean);
    return given == Argument::Bool;
  case Kind::DType:
    word = bitsOf(shim.dtypes[static_cast<int>(argument.dtype)]);
    return given == Argument::DType;
  case Kind::Layout:
    word = bitsOf(shim.strided);
    return given == Argument::Layout && argument.integer == 0;
  case Kind::MemoryFormat:
    if (given != Argument::MemoryFormat || argument.integer < 0 ||
        argument.integer > 3)
      return false;
    word = bitsOf(shim.memoryFormats[argument.integer]);
    return true;
  case Kind::Device:
    // The type in the upper half, no index in the lower one.
    word = uint64_t(uint32_t(shim.cpu)) << 32 | uint32_t(-1);
    return given == Argument::Device;
  case Kind::String: {
    ShimHandle handle = nullptr;
    if (given != Argument::String ||
        shim.newString(argument.string, std::strlen(argument.string),
                       &handle) != 0)
      return false;
    word = wordOf(handle);
    return true;
  }
  case Kind::Generator:
  case Kind::Other:
    return false;
  }
  return false;
}

/// A managed tensor around a tensor handle, which it owns.
struct ShimTensor {
  dlpack::ManagedTensor managed = {};
  ShimHandle handle = nullptr;
};

bool describe(const Shim &shim, ShimHandle handle, dlpack::Tensor &out) {
  int64_t rank = 0;
  int32_t dtype = 0, layout = 0;
  if (shim.layout(handle, &layout) != 0 || layout != shim.strided ||
      shim.rank(handle, &rank) != 0 || shim.sizes(handle, &out.shape) != 0 ||
      shim.strides(handle, &out.strides) != 0 ||
      shim.dataPointer(handle, &out.data) != 0 ||
      shim.dtype(handle, &dtype) != 0)
    return false;
  out.rank = int32_t(rank);
  out.device.type = dlpack::cpuDevice;
  for (int i = 0; i < dtypeCount; ++i)
    if (shim.dtypes[i] == dtype) {
      // A conjugation may be pending, which the shim cannot tell.
      DType found = static_cast<DType>(i);
      if (found == DType::C32 || found == DType::C64 || found == DType::C128)
        return false;
      out.dtype = toDLPack(found);
      return true;
    }
  return false;
}

/// Takes `handle` over in any case. Null when its memory cannot be described.
dlpack::ManagedTensor *manage(const Shim &shim, ShimHandle handle,
                              const HostCall &call) {
  auto result = std::make_unique<ShimTensor>();
  dlpack::Tensor &tensor = result->managed.tensor;
  bool good = describe(shim, handle, tensor);
  if (good &&
      overlaps(viewOf(tensor, fromDLPack(tensor.dtype).value_or(DType::U8)),
               call.arguments, call.argumentCount)) {
    ShimHandle copy = nullptr;
    good = shim.clone(handle, &copy) == 0;
    if (good) {
      shim.deleteTensor(handle);
      handle = copy;
      good = describe(shim, handle, tensor);
    }
  }
  if (!good) {
    shim.deleteTensor(handle);
    return nullptr;
  }
  result->handle = handle;
  result->managed.version = {dlpack::majorVersion, 0};
  result->managed.context = result.get();
  result->managed.deleter = [](dlpack::ManagedTensor *self) {
    auto *owner = static_cast<ShimTensor *>(self->context);
    Shim::get()->deleteTensor(owner->handle);
    delete owner;
  };
  return &result.release()->managed;
}

/// The tensors among an operator's results, lists spread out. They are owned.
bool spread(const Shim &shim, const TorchOperator &op, const ShimWord *stack,
            std::vector<ShimHandle> &tensors) {
  for (size_t i = 0; i < op.returns.size(); ++i) {
    if (op.returns[i].kind == Kind::Tensor) {
      tensors.push_back(handleOf(stack[i]));
      continue;
    }
    ShimHandle list = handleOf(stack[i]);
    size_t count = 0;
    bool good = shim.listSize(list, &count) == 0;
    for (size_t j = 0; good && j < count; ++j) {
      ShimWord item = 0;
      good = shim.listItem(list, j, &item) == 0;
      if (good)
        tensors.push_back(handleOf(item));
    }
    shim.deleteList(list);
    if (!good)
      return false;
  }
  return true;
}

bool collect(const Shim &shim, const TorchOperator &op, const HostCall &call,
             const ShimWord *stack,
             std::vector<dlpack::ManagedTensor *> &results) {
  std::vector<ShimHandle> tensors;
  bool good = spread(shim, op, stack, tensors);
  good = good && tensors.size() == call.resultCount;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool defined = false;
    if (!good || !call.wanted[i] || shim.isDefined(tensors[i], &defined) != 0 ||
        !defined) {
      good = good && (!call.wanted[i] || defined);
      shim.deleteTensor(tensors[i]);
      continue;
    }
    results[i] = manage(shim, tensors[i], call);
    good = results[i] != nullptr;
  }
  return good;
}

} // namespace

bool python::shimTakes(const TorchOperator &op) {
  // The result of _neg_view has its negation pending.
  if (!Shim::get() || op.name == "aten::_neg_view")
    return false;
  for (const SchemaArgument &argument : op.arguments)
    if (!carries(argument.type))
      return false;
  for (const SchemaType &type : op.returns)
    if (type.kind != Kind::Tensor &&
        !(type.kind == Kind::List && type.inner->kind == Kind::Tensor))
      return false;
  return true;
}

ShimOutcome python::callByShim(const TorchOperator &op, const HostCall &call,
                               std::vector<dlpack::ManagedTensor *> &results) {
  const Shim &shim = *Shim::get();
  if (call.argumentCount != op.arguments.size())
    return ShimOutcome::NotCalled;
  constexpr size_t usualWords = 16;
  SmallArray<ShimWord, usualWords> stack(
      std::max(op.arguments.size(), op.returns.size()) + 1);
  for (size_t i = 0; i < call.argumentCount; ++i) {
    if (toWord(shim, op.arguments[i].type, call.arguments[i], stack[i]))
      continue;
    for (size_t j = 0; j < i; ++j)
      drop(shim, op.arguments[j].type, stack[j]);
    return ShimOutcome::NotCalled;
  }
  if (shim.call(op.name.c_str(), op.overload.c_str(), stack.data(),
                shim.version) != 0)
    return ShimOutcome::Failed;
  return collect(shim, op, call, stack.data(), results) ? ShimOutcome::Done
                                                        : ShimOutcome::Failed;
}

/// Raises what an operator in Python has raised, of which C++ keeps the text
/// "ValueError: no such row", and the places after it. False if the text names
/// no exception.
static bool raiseAgain(const std::string &text) {
  size_t colon = text.find(": ");
  PyObject *builtins = PyEval_GetBuiltins(); // borrowed
  if (colon == std::string::npos || !builtins)
    return false;
  PyObject *kind =
      PyDict_GetItemString(builtins, text.substr(0, colon).c_str());
  if (!kind || !PyExceptionClass_Check(kind))
    return false;
  size_t end = text.find("\n\nAt:\n");
  PyErr_SetString(kind, text.substr(colon + 2, end - colon - 2).c_str());
  return true;
}

Status python::shimFailure(const TorchOperator &op) {
  GilTaken gil;
  const Shim &shim = *Shim::get();
  const char *what = shim.failure ? shim.failure() : nullptr;
  if (PyErr_Occurred() || (what && raiseAgain(what)))
    return stashError();
  return Status(StatusCode::HostError,
                what && *what ? what
                              : op.name + " failed, or returned a tensor that "
                                          "a program cannot take");
}
