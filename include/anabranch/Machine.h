//===- Machine.h - threads and memory that calls may use --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_H
#define ANABRANCH_MACHINE_H

#include "anabranch/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace anabranch {

/// The number of workers of a call, the caller included. The first of these
/// rules that applies decides:
///
/// - the last `setDefaultThreads`;
/// - ANABRANCH_NUM_THREADS;
/// - the framework's number, if its user chose one;
/// - OMP_NUM_THREADS;
/// - the cores that this process may use.
///
/// The last number never exceeds the whole CPUs of the container's quota. If
/// the quota has a part of a CPU left, some calls have one worker more. The
/// function looks at the machine again every two seconds, since a container may
/// be resized.
ANABRANCH_API int defaultThreads();
/// Zero returns to the rules above.
ANABRANCH_API void setDefaultThreads(int threads);
/// Sets the function that returns the thread count of the framework around this
/// runtime, such as torch.get_num_threads(). Each call of a program asks it,
/// from any thread. A count that is less than the CPUs of the process and
/// differs from its cores is a choice of the user's, and counts. Null: no
/// framework.
ANABRANCH_API void setFrameworkThreads(int (*count)());
/// The threads that the framework around this runtime keeps for its own
/// operators, such as PyTorch's OpenMP team. Idle ones spin for a while, so
/// other threads had better not work beside them.
struct FrameworkTeam {
  /// The threads of a region that the calling thread may open now, itself
  /// among them. 1: it may open none, because it is inside of one.
  int (*size)();
  /// Runs `body` on each of these threads, the calling one as number 0, and
  /// returns when all have returned.
  void (*run)(void (*body)(void *data, int number), void *data);
  /// The threads' name in traces.
  const char *name;
};
/// Lets calls run as regions of this team, if they want as many threads as it
/// has. The children of a fork do without. The object must live as long as the
/// process. Null: no team.
ANABRANCH_API void setFrameworkTeam(const FrameworkTeam *team);
/// Binds the workers of this process to CPUs, from their next piece of work on.
/// "cores" gives each worker a core of its own: those that share a cache with
/// the first core, then those of its memory node, then others. The first core
/// comes last. A list
/// such as "0,2-3" gives them these CPUs in turn. "off" lets them run anywhere.
/// Threads that call programs are never bound. If no caller calls this
/// function, opening a package applies ANABRANCH_PIN. InvalidArgument: the text
/// is no list, or names a CPU that the process may not use.
ANABRANCH_API Status pinWorkers(const std::string &where);
/// The facts found about CPUs, container and threads, one a line, and the rule
/// that chose the workers of a call.
ANABRANCH_API std::string machineFacts();
/// The bytes that the memory limits of the process's container still allow,
/// over all levels; nothing if there is no limit.
ANABRANCH_API std::optional<int64_t> memoryRoom();

} // namespace anabranch

#endif // ANABRANCH_MACHINE_H
