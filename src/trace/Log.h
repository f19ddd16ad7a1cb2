//===- Log.h - what a person who operates the process reads -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_TRACE_LOG_H
#define ANABRANCH_TRACE_LOG_H

#include <string>

namespace anabranch::trace {

/// The line, without its end, that says `text` in the name of `program`: words
/// after the name or, where `asJson`, an object of docs/containers.md. Text
/// that is no UTF-8 gets replacement characters.
std::string warningLine(const std::string &program, const std::string &text,
                        bool asJson);

} // namespace anabranch::trace

#endif // ANABRANCH_TRACE_LOG_H
