//===- Machine.h - threads and memory that calls may use --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_MACHINE_H
#define ANABRANCH_MACHINE_H

#include "anabranch/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace anabranch {

/// Workers of a call, the caller included: the last `setDefaultThreads`, else
/// ANABRANCH_NUM_THREADS, else the framework's number if its user chose it,
/// else OMP_NUM_THREADS, else the cores that this process may use, and no more
/// than the whole CPUs of its container's quota. The machine is looked at again
/// every two seconds, since a container may be resized.
ANABRANCH_API int defaultThreads();
/// Zero returns to the environment's choice.
ANABRANCH_API void setDefaultThreads(int threads);
/// How to ask the framework around this runtime for its number of threads, as
/// torch.get_num_threads() does. It is asked at each call, from any thread, and
/// counts where it is less than the CPUs of the process and not its cores: then
/// somebody chose it. Null: there is no framework.
ANABRANCH_API void setFrameworkThreads(int (*count)());
/// Binds the workers of this process to CPUs, from their next piece of work on:
/// "cores" gives each a core, the first one last; a list such as "0,2-3" gives
/// them these CPUs in turn; "off" lets them run anywhere. Threads that call
/// programs are never bound. Without a call of this, ANABRANCH_PIN says it when
/// a package is opened. InvalidArgument: no such list, or a CPU that the
/// process may not use.
ANABRANCH_API Status pinWorkers(const std::string &where);
/// What was found about CPUs, container and threads, one fact a line, and which
/// rule chose the workers of a call.
ANABRANCH_API std::string machineFacts();
/// How many more bytes the memory limits of the process's container allow, on
/// all levels; nothing where there is no limit.
ANABRANCH_API std::optional<int64_t> memoryRoom();

} // namespace anabranch

#endif // ANABRANCH_MACHINE_H
