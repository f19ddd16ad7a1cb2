//===- ThreadSanitizer.h - whether it watches this test ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_PROCESS_THREADSANITIZER_H
#define ANABRANCH_SUPPORT_PROCESS_THREADSANITIZER_H

namespace anabranch::testing {

/// The thread sanitizer does not follow threads through a fork, and starts some
/// of its own.
#if defined(__SANITIZE_THREAD__)
constexpr bool underThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool underThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool underThreadSanitizer = false;
#endif

} // namespace anabranch::testing

#endif // ANABRANCH_SUPPORT_PROCESS_THREADSANITIZER_H
