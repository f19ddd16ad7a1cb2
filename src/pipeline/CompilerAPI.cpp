//===- CompilerAPI.cpp - the C API of the compiler library ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/Compiler.h"

#include "import/OpTable.h"
#include "pipeline/Compiler.h"

#include "llvm/ADT/StringSwitch.h"

#include <new>

using namespace anabranch;
using pipeline::Outcome;

struct anabranch_compile_result {
  pipeline::Result result;
};

static anabranch_compile_status statusOf(Outcome outcome) {
  switch (outcome) {
  case Outcome::Ok:
    return ANABRANCH_COMPILE_OK;
  case Outcome::UserError:
    return ANABRANCH_COMPILE_USER_ERROR;
  case Outcome::InternalError:
    return ANABRANCH_COMPILE_INTERNAL_ERROR;
  case Outcome::Cancelled:
    return ANABRANCH_COMPILE_CANCELLED;
  }
  return ANABRANCH_COMPILE_INTERNAL_ERROR;
}

static pipeline::Result userError(std::string message) {
  return {Outcome::UserError, std::move(message), "{}"};
}

/// Names of the graph description, as Tensor.h numbers them.
static std::optional<DType> dtypeOf(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<DType>>(name)
      .Case("bool", DType::Bool)
      .Case("u8", DType::U8)
      .Case("i8", DType::I8)
      .Case("i16", DType::I16)
      .Case("i32", DType::I32)
      .Case("i64", DType::I64)
      .Case("f16", DType::F16)
      .Case("bf16", DType::BF16)
      .Case("f32", DType::F32)
      .Case("f64", DType::F64)
      .Case("u16", DType::U16)
      .Case("u32", DType::U32)
      .Case("u64", DType::U64)
      .Case("c32", DType::C32)
      .Case("c64", DType::C64)
      .Case("c128", DType::C128)
      .Case("f8e4m3fn", DType::F8E4M3FN)
      .Case("f8e5m2", DType::F8E5M2)
      .Case("f8e4m3fnuz", DType::F8E4M3FNUZ)
      .Case("f8e5m2fnuz", DType::F8E5M2FNUZ)
      .Default(std::nullopt);
}

static pipeline::Result compileRequest(const anabranch_compile_request &from) {
  if (from.api_version != ANABRANCH_COMPILER_API_VERSION)
    return userError("the request is of another version of Compiler.h");
  llvm::Expected<pipeline::Options> options =
      pipeline::parseOptions(from.options ? from.options : "{}");
  if (!options)
    return userError(llvm::toString(options.takeError()));
  pipeline::Request request;
  request.graph = llvm::StringRef(from.graph, from.graph_size);
  request.options = std::move(*options);
  request.output = from.output ? from.output : "";
  for (const anabranch_constant &constant :
       llvm::ArrayRef(from.constants, from.constant_count)) {
    std::optional<DType> dtype = dtypeOf(constant.dtype);
    if (!dtype)
      return userError(std::string("constant '") + constant.name +
                       "' has the unknown dtype " + constant.dtype);
    request.constants.push_back(
        {constant.name, *dtype,
         std::vector<int64_t>(constant.shape, constant.shape + constant.rank),
         constant.data});
  }
  if (from.progress)
    request.progress = [&](llvm::StringRef phase, int64_t done, int64_t total) {
      return from.progress(phase.str().c_str(), done, total, from.user_data) ==
             0;
    };
  return pipeline::compile(request);
}

extern "C" {

anabranch_compile_status
anabranch_compile(const anabranch_compile_request *request,
                  anabranch_compile_result **result) {
  *result = nullptr;
  try {
    *result = new anabranch_compile_result{compileRequest(*request)};
  } catch (const std::bad_alloc &) {
    return ANABRANCH_COMPILE_INTERNAL_ERROR;
  }
  return statusOf((*result)->result.outcome);
}

anabranch_compile_status
anabranch_compile_result_status(const anabranch_compile_result *result) {
  return statusOf(result->result.outcome);
}

const char *
anabranch_compile_result_message(const anabranch_compile_result *result) {
  return result->result.message.c_str();
}

const char *
anabranch_compile_result_report(const anabranch_compile_result *result) {
  return result->result.report.c_str();
}

void anabranch_compile_result_free(anabranch_compile_result *result) {
  delete result;
}

const char *anabranch_operator_table(void) {
  static const std::string table = importer::describeOpTable();
  return table.c_str();
}

const char *anabranch_compiler_version(void) { return "0.1.0"; }
}
