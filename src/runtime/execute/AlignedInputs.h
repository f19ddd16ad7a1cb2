//===- AlignedInputs.h - copies of unaligned arguments ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_ALIGNEDINPUTS_H
#define ANABRANCH_RUNTIME_EXECUTE_ALIGNEDINPUTS_H

#include "runtime/device/DeviceBuffer.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <vector>

namespace anabranch::runtime {

/// Kernels assume that an element lies at a multiple of its size. A file that
/// was mapped, or bytes of a socket, may begin at any address: a call copies
/// these arguments. Copies keep the strides of the argument, and their memory
/// serves the frame's next call.
class AlignedInputs {
public:
  AlignedInputs(const Plan &plan, const Commands &commands);

  static bool isAligned(const TensorView &tensor) {
    auto address = reinterpret_cast<uintptr_t>(tensor.data);
    return (address & (itemSize(tensor.dtype) - 1)) == 0;
  }

  /// Forgets the copies of the last call.
  void beginCall() { copied.clear(); }
  /// The memory that the commands use for an input that is not aligned: a copy,
  /// or the argument's own if no command uses it. Null: there is no memory.
  void *place(size_t number, const TensorView &argument);
  /// Writes copies of inputs that the program updates back to the arguments.
  void writeBack(const InputValue *arguments) const;

  /// The number of copies that this call made.
  size_t count() const { return copied.size(); }
  size_t bytes() const;

private:
  void findUsed();
  TensorView viewOfCopy(size_t number, const TensorView &argument) const;

  const Plan &plan;
  const Commands &commands;
  std::vector<bool> used; ///< by input; empty until an input is not aligned
  std::vector<std::unique_ptr<DeviceBuffer>> copies; ///< by input
  std::vector<size_t> copied;                        ///< numbers of inputs
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_ALIGNEDINPUTS_H
