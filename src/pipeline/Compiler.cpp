//===- Compiler.cpp - the compiler library's C API ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Compiler.h"

#include "import/lowering/OpTable.h"
#include "pipeline/Pipeline.h"
#include "pipeline/ReleaseCode.h"
#include <new>

using namespace anabranch;

struct anabranch_compile_result {
  anabranch_compile_status status = ANABRANCH_COMPILE_OK;
  std::string message;
  std::string report = "{}";
};

static anabranch_compile_status statusOf(pipeline::Outcome outcome) {
  switch (outcome) {
  case pipeline::Outcome::Ok:
    return ANABRANCH_COMPILE_OK;
  case pipeline::Outcome::UserError:
    return ANABRANCH_COMPILE_USER_ERROR;
  case pipeline::Outcome::InternalError:
    return ANABRANCH_COMPILE_INTERNAL_ERROR;
  case pipeline::Outcome::Cancelled:
    return ANABRANCH_COMPILE_CANCELLED;
  }
  return ANABRANCH_COMPILE_INTERNAL_ERROR;
}

static bool findDType(llvm::StringRef wanted, DType &dtype) {
  for (int i = 0; i < dtypeCount; ++i)
    if (wanted == name(static_cast<DType>(i))) {
      dtype = static_cast<DType>(i);
      return true;
    }
  return false;
}

/// Returns an empty text, or what is wrong with the request's constants.
static std::string readConstants(const anabranch_compile_request &request,
                                 std::vector<package::Constant> &constants) {
  for (size_t i = 0; i < request.constant_count; ++i) {
    const anabranch_constant &given = request.constants[i];
    package::Constant constant;
    constant.name = given.name ? given.name : "";
    if (!given.dtype || !findDType(given.dtype, constant.dtype))
      return "constant '" + constant.name + "' has no known dtype";
    if (given.rank < 0 || given.rank > 64 || (given.rank > 0 && !given.shape))
      return "constant '" + constant.name + "' has no shape";
    constant.shape.assign(given.shape, given.shape + given.rank);
    constant.data = given.data;
    if (given.strides)
      constant.strides.assign(given.strides, given.strides + given.rank);
    for (int64_t stride : constant.strides)
      if (stride < 0)
        return "constant '" + constant.name + "' has a negative stride";
    constants.push_back(std::move(constant));
  }
  return "";
}

static native::ObjectStore storeOf(const anabranch_object_store *given) {
  native::ObjectStore store;
  if (!given || !given->find || !given->keep)
    return store;
  store.identity = given->identity ? given->identity : "";
  store.find = [given](const std::string &key,
                       llvm::SmallVectorImpl<char> &bytes) {
    auto take = [](const void *data, size_t size, void *into) {
      const auto *begin = static_cast<const char *>(data);
      static_cast<llvm::SmallVectorImpl<char> *>(into)->assign(begin,
                                                               begin + size);
    };
    given->find(key.c_str(), take, &bytes, given->user_data);
    return !bytes.empty();
  };
  store.keep = [given](const std::string &key, llvm::ArrayRef<char> bytes) {
    given->keep(key.c_str(), bytes.data(), bytes.size(), given->user_data);
  };
  return store;
}

static void compile(const anabranch_compile_request &request,
                    anabranch_compile_result &result) {
  auto refuse = [&](std::string message) {
    result.status = ANABRANCH_COMPILE_USER_ERROR;
    result.message = std::move(message);
  };
  if (request.api_version != ANABRANCH_COMPILER_API_VERSION)
    return refuse("the request is for another version of the compiler's API");
  if (!request.graph || (request.constant_count && !request.constants))
    return refuse("the request lacks its graph or its constants");
  llvm::Expected<pipeline::Options> options =
      pipeline::parseOptions(request.options ? request.options : "");
  if (!options)
    return refuse(llvm::toString(options.takeError()));
  std::vector<package::Constant> constants;
  std::string wrong = readConstants(request, constants);
  if (!wrong.empty())
    return refuse(wrong);
  if (!request.output && options->stop.empty())
    return refuse("the request names no folder for the package");
  auto progress = [&](llvm::StringRef phase, int64_t done, int64_t total) {
    return !request.progress || request.progress(phase.str().c_str(), done,
                                                 total, request.user_data) == 0;
  };
  pipeline::Compilation compilation(std::move(*options), progress,
                                    storeOf(request.objects));
  result.status = statusOf(
      compilation.run(llvm::StringRef(request.graph, request.graph_size),
                      constants, request.output ? request.output : ""));
  result.message = compilation.message();
  result.report = compilation.report().json();
}

anabranch_compile_status
anabranch_compile(const anabranch_compile_request *request,
                  anabranch_compile_result **result) {
  *result = nullptr;
  try {
    auto made = std::make_unique<anabranch_compile_result>();
    // Loading LLVM's libraries touches more of their code than compiling does.
    pipeline::releaseCode();
    try {
      compile(*request, *made);
    } catch (const std::exception &error) {
      made->status = ANABRANCH_COMPILE_INTERNAL_ERROR;
      made->message = error.what();
    }
    // The result needs memory for its weights. LLVM's code leaves before that.
    pipeline::releaseCode();
    *result = made.release();
    return (*result)->status;
  } catch (const std::bad_alloc &) {
    return ANABRANCH_COMPILE_INTERNAL_ERROR;
  }
}

anabranch_compile_status
anabranch_compile_result_status(const anabranch_compile_result *result) {
  return result->status;
}

const char *
anabranch_compile_result_message(const anabranch_compile_result *result) {
  return result->message.c_str();
}

const char *
anabranch_compile_result_report(const anabranch_compile_result *result) {
  return result->report.c_str();
}

void anabranch_compile_result_free(anabranch_compile_result *result) {
  delete result;
}

const char *anabranch_operator_table(void) {
  static const std::string table = importer::describeOpTable();
  return table.c_str();
}

const char *anabranch_compiler_version(void) { return "0.1.0"; }
