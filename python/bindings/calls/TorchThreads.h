//===- TorchThreads.h - the user's number of threads ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TORCHTHREADS_H
#define ANABRANCH_BINDINGS_TORCHTHREADS_H

namespace anabranch::python {

/// From now on the runtime asks PyTorch how many threads it has, so that
/// torch.set_num_threads() counts for calls of ours too. Nothing happens with a
/// PyTorch that has no function for it.
void followTorchThreads();

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHTHREADS_H
