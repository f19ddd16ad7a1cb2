//===- PagedDecode.cpp - checks a step of decoding, and runs its tasks ----===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/PagedDecode.h"

#include "paged/AttendCode.h"

#include <algorithm>
#include <string>
#include <utility>

namespace anabranch {

static Status invalid(std::string message) {
  return {StatusCode::InvalidArgument, std::move(message)};
}

static Status checkSizes(const PagedDecode &decode) {
  if (decode.dtype != DType::BF16 && decode.dtype != DType::F32)
    return invalid("attention over pages is of bf16 or f32, not " +
                   std::string(name(decode.dtype)));
  if (decode.keyHeads < 1 || decode.heads < 1 || decode.heads % decode.keyHeads)
    return invalid(std::to_string(decode.heads) + " heads cannot share " +
                   std::to_string(decode.keyHeads) + " key heads");
  for (int64_t size : {decode.headSize, decode.pageSize})
    if (size < 1 || size % paged::widestVector)
      return invalid("a head or a page of " + std::to_string(size) +
                     " is no multiple of " +
                     std::to_string(paged::widestVector));
  if (decode.window < 0)
    return invalid("the window is negative");
  return {};
}

static Status checkRequest(const PagedDecode &decode, int64_t request) {
  auto wrong = [&](const std::string &what) {
    return invalid("request " + std::to_string(request) + " " + what);
  };
  int64_t length = decode.lengths[request], slot = decode.slots[request];
  if (length < 1 || length > decode.tableWidth * decode.pageSize)
    return wrong("has " + std::to_string(length) + " tokens, and room for " +
                 std::to_string(decode.tableWidth * decode.pageSize));
  if (slot < 0 || slot >= decode.pages * decode.pageSize)
    return wrong("writes slot " + std::to_string(slot) + " of " +
                 std::to_string(decode.pages * decode.pageSize));
  const int32_t *table = decode.table + request * decode.tableStep;
  for (int64_t i = 0; i * decode.pageSize < length; ++i)
    if (table[i] < 0 || table[i] >= decode.pages)
      return wrong("has page " + std::to_string(table[i]) + " of " +
                   std::to_string(decode.pages));
  return {};
}

Status checkPagedDecode(const PagedDecode &decode) {
  if (Status status = checkSizes(decode); !status.ok())
    return status;
  for (int64_t request = 0; request < decode.requests; ++request)
    if (Status status = checkRequest(decode, request); !status.ok())
      return status;
  return {};
}

int64_t pagedDecodeScratch(const PagedDecode &decode) {
  int64_t longest = 0;
  for (int64_t request = 0; request < decode.requests; ++request)
    longest = std::max<int64_t>(longest, decode.lengths[request]);
  return paged::ScratchLayout(decode, longest).floats();
}

void attendPages(const PagedDecode &decode, int64_t firstTask, int64_t endTask,
                 float *scratch) {
  const paged::AttendCode &code = paged::attendCode();
  paged::RunTask run =
      decode.dtype == DType::F32 ? code.runFloat : code.runBFloat;
  for (int64_t task = firstTask; task < endTask; ++task)
    run(decode, task / decode.keyHeads, task % decode.keyHeads, scratch);
}

} // namespace anabranch
