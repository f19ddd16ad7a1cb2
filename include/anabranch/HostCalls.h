//===- HostCalls.h - operators that the host runs for us --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// An operator without a lowering is a Call command, and a host that has PyTorch
// (the Python binding) runs it through this interface.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_HOSTCALLS_H
#define ANABRANCH_HOSTCALLS_H

#include "anabranch/Tensor.h"

namespace anabranch {

/// One argument of an operator, known by its name in the schema; the order says
/// nothing. `kind` says which member holds the value; `integer` also serves
/// Layout and MemoryFormat, `string` Device.
struct HostArgument {
  enum class Kind : int8_t {
    None,
    Tensor,
    Int,
    Float,
    Bool,
    String,
    DType,
    List,
    Layout,
    Device,
    MemoryFormat
  };
  const char *name = "";
  Kind kind = Kind::None;
  bool boolean = false;
  anabranch::DType dtype = anabranch::DType::F32;
  int64_t integer = 0;
  double real = 0;
  const char *string = "";
  TensorView tensor;
  const HostArgument *items = nullptr; ///< List
  size_t itemCount = 0;
};

/// A tensor that the host made and keeps alive until `release(handle)`.
struct HostResult {
  void *handle = nullptr;
  TensorView tensor;
};

/// One call of one operator; all pointers live until `HostCalls::call` returns.
struct HostCall {
  const char *op;       ///< "aten::topk"
  const char *overload; ///< "" or "values"
  void *prepared;       ///< what `prepare` made of the two
  const HostArgument *arguments;
  size_t argumentCount;
  size_t resultCount;
  const bool *wanted;   ///< per result: whether anybody reads it
  const char *location; ///< the user's line, for messages
};

/// What a host implements. `prepare` is called while a package is opened, once
/// per Call command. `call` is called on the thread that called
/// `Executable::run`; several threads may run one executable at once. The
/// object must outlive the executable.
class ANABRANCH_API HostCalls {
public:
  virtual ~HostCalls();

  /// Looks an operator up; an error refuses the package. The result is handed
  /// back in HostCall::prepared and is never freed by the runtime.
  virtual Expected<void *> prepare(const char *op, const char *overload) = 0;

  /// Runs the operator and fills `results[0..resultCount)`; an unwanted one may
  /// stay empty (null handle). A result must not alias an argument: the host
  /// copies where the operator returned a view. Strides may be anything; the
  /// runtime copies when kernels expect other ones. On an error no result is
  /// handed over.
  virtual Status call(const HostCall &call, HostResult *results) = 0;

  /// Gives a result back. Any thread.
  virtual void release(void *handle) = 0;

  /// A second handle of the same tensor, for a program that returns it twice.
  /// Null, as from this default: the host cannot, and such a call fails.
  virtual void *retain(void *handle);
};

} // namespace anabranch

#endif // ANABRANCH_HOSTCALLS_H
