//===- TorchProfiler.h - our slices in torch.profiler -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TORCHPROFILER_H
#define ANABRANCH_BINDINGS_TORCHPROFILER_H

namespace anabranch::python {

/// Reports calls and commands to torch.profiler while it runs. The caller calls
/// it before each call of a program, with the GIL. It costs one dictionary
/// look-up if no profiler runs.
void followTorchProfiler();

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHPROFILER_H
