//===- Log.h - lines for the operator of the process ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_TRACE_LOG_H
#define ANABRANCH_TRACE_LOG_H

#include <string>

namespace anabranch::trace {

/// The line, without its end, with which `program` warns of `text`: words after
/// the name or, if `asJson`, an object of docs/containers.md. Replacement
/// characters replace bytes that are not UTF-8.
std::string warningLine(const std::string &program, const std::string &text,
                        bool asJson);

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_LOG_H
