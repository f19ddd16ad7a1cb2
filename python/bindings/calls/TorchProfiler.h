//===- TorchProfiler.h - our slices in torch.profiler -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TORCHPROFILER_H
#define ANABRANCH_BINDINGS_TORCHPROFILER_H

namespace anabranch::python {

/// Tells torch.profiler of calls and commands while it runs, and costs one
/// dictionary look-up when it does not. Needs the GIL; to be asked before each
/// call.
void followTorchProfiler();

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHPROFILER_H
