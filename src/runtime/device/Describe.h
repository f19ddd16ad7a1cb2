//===- Describe.h - tensors and places in words -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_DESCRIBE_H
#define ANABRANCH_RUNTIME_DEVICE_DESCRIBE_H

#include "anabranch/Status.h"
#include "anabranch/Tensor.h"
#include "trace/ProgramInfo.h"

#include <string>

namespace anabranch::runtime {

/// The numbers as "[8, 128]".
std::string describe(const int64_t *numbers, size_t count);
/// Dtype and shape as "f32[8, 128]".
std::string describe(const TensorView &tensor);
/// Operators and user's line, as "linear, gelu at m.py:12 in forward"; the
/// kernel's name if the package has no location.
std::string describe(const trace::Label &label);

/// The meaning of a kernel's status, with the user's line.
Status kernelError(int32_t status, const trace::Label &label);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_DESCRIBE_H
