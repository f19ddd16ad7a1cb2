//===- ForeignProcess.h - runs kernels of another architecture --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An emulated process that calls functions of a kernel library on this
// process's memory (ForeignCalls.h says how). For tests: the suites of kernels
// run for every architecture on any machine that has the emulator.

#ifndef ANABRANCH_SUPPORT_NATIVE_FOREIGNPROCESS_H
#define ANABRANCH_SUPPORT_NATIVE_FOREIGNPROCESS_H

#include "native/target/Target.h"
#include "support/native/ForeignCalls.h"

#include <memory>
#include <optional>
#include <string>

namespace anabranch {
namespace native {

class ForeignProcess {
public:
  /// Whether the build found an emulator for code of this target, and the
  /// environment asks for it (ANABRANCH_EMULATE): it takes minutes.
  static bool emulates(const TargetInfo &target);

  /// Loads the library at `path`. Only if `emulates`. Null if the library does
  /// not load; the emulator's standard error says why.
  static std::shared_ptr<ForeignProcess> load(const TargetInfo &target,
                                              const std::string &path);

  ForeignProcess(const ForeignProcess &) = delete;
  ForeignProcess &operator=(const ForeignProcess &) = delete;
  ~ForeignProcess();

  bool has(const std::string &function) {
    return ask(ANABRANCH_FIND, function) != 0;
  }

  /// Calls a function with up to four words, and returns its result. Pointers
  /// are those of this process.
  template <typename... Words>
  int32_t call(const std::string &function, Words... words) {
    return static_cast<int32_t>(
        ask(ANABRANCH_CALL, function, {toWord(words)...}));
  }
  /// Calls a kernel for some tiles, up to the first status that is not zero.
  int32_t callTiles(const std::string &kernel, void *const *buffers,
                    const int64_t *sizes, void *scratch, int64_t first,
                    int64_t last) {
    return static_cast<int32_t>(
        ask(ANABRANCH_CALL, kernel,
            {toWord(buffers), toWord(sizes), toWord(scratch), toWord(first)},
            uint64_t(last - first)));
  }

private:
  ForeignProcess() = default;

  static uint64_t toWord(int64_t number) { return uint64_t(number); }
  static uint64_t toWord(const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  }

  bool start();
  void stop();
  /// Ends the process, and begins another one with the same library.
  bool restart();
  /// Sends a request, and serves the process until it is done. If the process
  /// ends, the test has failed, and the result is -1.
  uint64_t ask(uint64_t kind, const std::string &name,
               std::initializer_list<uint64_t> arguments = {},
               uint64_t times = 1);
  /// The same with one process; nothing if it ends before it is done, without
  /// having written anything.
  std::optional<uint64_t> serve(const anabranch_foreign_request &request);
  bool send(const void *data, size_t bytes) const;
  bool receive(void *data, size_t bytes) const;
  bool sendPage(uint64_t address) const;

  const char *core = nullptr; ///< the emulator's name of the processor
  std::string library;
  int socket = -1;
  int pid = -1;
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_NATIVE_FOREIGNPROCESS_H
