//===- TorchThreads.h - the user's number of threads ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_TORCHTHREADS_H
#define ANABRANCH_BINDINGS_TORCHTHREADS_H

namespace anabranch::python {

/// Makes the runtime ask PyTorch for its number of threads, so that
/// torch.set_num_threads() limits calls of programs too. Does nothing if this
/// PyTorch has no function for it.
void followTorchThreads();

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHTHREADS_H
