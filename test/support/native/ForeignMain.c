/* Runs kernels of another architecture under an emulator, for a test.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel gets the addresses that it has in the test's process. The first
 * touch of a page faults, and the handler fetches the page; the first write to
 * it faults again, and from then on the page counts as written.
 */
#define _GNU_SOURCE
#include "ForeignCalls.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = ANABRANCH_FOREIGN_PAGE, MOST = 1 << 16, SLOTS = 2 * MOST };

struct page {
  char *at;
  char *before; /* what the page held, once it was written */
};

static struct page pages[MOST];
static int count, slots[SLOTS]; /* hash table: 1 + the number of a page */

static void receive(void *data, size_t bytes) {
  for (char *at = data; bytes;) {
    ssize_t got = read(0, at, bytes);
    if (got <= 0)
      _exit(0);
    at += got;
    bytes -= (size_t)got;
  }
}

static void send(const void *data, size_t bytes) {
  for (const char *at = data; bytes;) {
    ssize_t sent = write(1, at, bytes);
    if (sent <= 0)
      _exit(1);
    at += sent;
    bytes -= (size_t)sent;
  }
}

static void note(uint64_t kind, uint64_t value, uint64_t bytes) {
  struct anabranch_foreign_note words = {kind, value, bytes};
  send(&words, sizeof words);
}

static int *slot_of(const char *at) {
  uint64_t hash = (uint64_t)at / PAGE * 0x9e3779b97f4a7c15u;
  for (uint64_t slot = hash >> 40;; ++slot) {
    int *found = &slots[slot % SLOTS];
    if (!*found || pages[*found - 1].at == at)
      return found;
  }
}

static char *map(char *at) {
  return mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
              0);
}

static void fetch(char *at, int *slot) {
  uint64_t there;
  note(ANABRANCH_WANTS, (uint64_t)at, PAGE);
  receive(&there, sizeof there);
  if (!there) { /* the fault is the kernel's */
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  if (count == MOST || map(at) != at)
    _exit(2);
  receive(at, PAGE);
  mprotect(at, PAGE, PROT_READ);
  pages[count++] = (struct page){at, NULL};
  *slot = count;
}

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  char *at = (char *)((uint64_t)info->si_addr / PAGE * PAGE);
  int *slot = slot_of(at);
  if (!*slot) {
    fetch(at, slot);
    return;
  }
  struct page *page = &pages[*slot - 1];
  page->before = map(NULL);
  memcpy(page->before, at, PAGE);
  mprotect(at, PAGE, PROT_READ | PROT_WRITE);
}

/* Sends the runs of bytes that differ. Bytes of one page that the test itself
 * has changed meanwhile, on its stack, stay as they are. */
static void send_changes(const struct page *page) {
  for (int from = 0; from < PAGE;) {
    if (page->at[from] == page->before[from]) {
      ++from;
      continue;
    }
    int to = from + 1;
    while (to < PAGE && page->at[to] != page->before[to])
      ++to;
    note(ANABRANCH_WROTE, (uint64_t)(page->at + from), (uint64_t)(to - from));
    send(page->at + from, (size_t)(to - from));
    from = to;
  }
}

static void give_back(void) {
  for (int i = 0; i < count; ++i) {
    if (pages[i].before) {
      send_changes(&pages[i]);
      munmap(pages[i].before, PAGE);
    }
    munmap(pages[i].at, PAGE);
  }
  count = 0;
  memset(slots, 0, sizeof slots);
}

typedef int32_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t);

static uint64_t call(function called,
                     const struct anabranch_foreign_request *request) {
  const uint64_t *a = request->arguments;
  int32_t status = 0;
  for (uint64_t i = 0; i < request->times && !status; ++i)
    status = called(a[0], a[1], a[2], a[3] + i);
  return (uint64_t)status;
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, NULL);
  void *library = NULL;
  for (;;) {
    struct anabranch_foreign_request request;
    receive(&request, sizeof request);
    uint64_t result = 0;
    if (request.kind == ANABRANCH_LOAD) {
      library = dlopen(request.name, RTLD_NOW);
      if (!library)
        fprintf(stderr, "%s\n", dlerror());
      result = library != NULL;
    } else {
      function called = (function)(uint64_t)dlsym(library, request.name);
      result = called != NULL;
      if (called && request.kind == ANABRANCH_CALL)
        result = call(called, &request);
      give_back();
    }
    note(ANABRANCH_DONE, result, 0);
  }
}
