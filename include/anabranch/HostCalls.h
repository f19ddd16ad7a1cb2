//===- HostCalls.h - operators that the host runs for us --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An operator without a lowering is a Call command. A host that has PyTorch,
// such as the Python binding, runs it through this interface.

#ifndef ANABRANCH_HOSTCALLS_H
#define ANABRANCH_HOSTCALLS_H

#include "anabranch/Tensor.h"

namespace anabranch {

/// One argument of an operator, found by its name in the schema; the order of
/// arguments has no meaning. `kind` says which member holds the value.
/// `integer` also holds Layout and MemoryFormat, and `string` holds Device.
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

/// One call of one operator. All pointers are valid until `HostCalls::call`
/// returns.
struct HostCall {
  const char *op;       ///< "aten::topk"
  const char *overload; ///< "" or "values"
  void *prepared;       ///< what `prepare` returned for `op` and `overload`
  const HostArgument *arguments;
  size_t argumentCount;
  size_t resultCount;
  const bool *wanted;   ///< for each result, whether the program reads it
  const char *location; ///< the user's line, for messages
};

/// The interface of a host. Opening a package calls `prepare` once for each
/// Call command. Runs call `call`, on the thread that called `Executable::run`;
/// several threads may run one executable at once. The object must outlive the
/// executable.
class ANABRANCH_API HostCalls {
public:
  virtual ~HostCalls();

  /// Looks an operator up. An error refuses the package. Each call of the
  /// operator gets the returned pointer as HostCall::prepared; the runtime
  /// never frees it.
  virtual Expected<void *> prepare(const char *op, const char *overload) = 0;

  /// Runs the operator and fills `results[0..resultCount)`. A result that is
  /// not wanted may stay empty (null handle). No result may alias an argument:
  /// where the operator returns a view, the host copies. Strides may be
  /// anything; the runtime copies if a kernel expects others. On an error the
  /// host hands over no result.
  virtual Status call(const HostCall &call, HostResult *results) = 0;

  /// Releases a result. Any thread.
  virtual void release(void *handle) = 0;

  /// Returns a second handle of the same tensor, for a program that returns it
  /// twice. Null means that the host cannot, and the call fails; this default
  /// returns null.
  virtual void *retain(void *handle);

  /// Makes a contiguous tensor of the dtype and shape of `like`, for a result
  /// whose size the program has just found. Only the thread that called
  /// `Executable::run` asks. This default refuses.
  virtual Expected<HostResult> make(const TensorView &like);

  /// A loop that takes long asks now and then, on the thread that called
  /// `Executable::run`, whether to go on. An error ends the call with it. This
  /// default lets loops go on.
  virtual Status poll();
};

} // namespace anabranch

#endif // ANABRANCH_HOSTCALLS_H
