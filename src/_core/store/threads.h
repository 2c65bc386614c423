// A group of threads at work, and the thread that asks about limits meanwhile.
//
// Only the caller's thread may ask (Ctrl-C reaches Python through it); it tells the others by `stop`, which they look at. Whatever
// goes wrong, no thread outlives `run`: an exception of one, or a thread that cannot be started, stops all and is thrown again.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "store/limits.h"

namespace polvet {

struct Threads : std::vector<std::thread> {
    ~Threads() {
        for (std::thread& thread : *this) thread.join();
    }
};

struct Crew {
    std::atomic<Status> stop{Status::DONE};

    // Run work(k) on threads k = 0, 1, ... and poll() every 20 ms on this one until all have ended.
    template <class Work, class Poll> void run(size_t count, const Work& work, const Poll& poll) {
        std::mutex mutex;
        std::condition_variable ended;
        size_t running = count;
        std::exception_ptr failure;
        const auto fail = [&] {
            std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
            stop = Status::FAULT;
        };
        const auto guarded = [&](size_t k) {
            try {
                work(k);
            } catch (...) { fail(); }
            std::lock_guard lock(mutex);
            --running;
            ended.notify_one();
        };
        {
            Threads threads;
            try {
                while (threads.size() < count) threads.emplace_back(guarded, threads.size());
            } catch (...) {
                fail();
                std::lock_guard lock(mutex);
                running -= count - threads.size();
            }
            std::unique_lock lock(mutex);
            while (running > 0) {
                ended.wait_for(lock, std::chrono::milliseconds(20));
                if (running == 0 || stop != Status::DONE) continue;
                lock.unlock();
                try {
                    Status none = Status::DONE;  // the first reason to stop is the one that is told
                    stop.compare_exchange_strong(none, poll());
                } catch (...) { fail(); }
                lock.lock();
            }
        }
        if (failure) std::rethrow_exception(failure);
    }
};

// Do work(thread, task) for the tasks 0, 1, ...: threads, this one among them, take the next one until none is left. Short work, which
// nobody interrupts; an exception is thrown again once all have ended.
template <class Work> void share_tasks(unsigned count, size_t tasks, const Work& work) {
    std::atomic<size_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    const auto loop = [&](unsigned thread) {
        try {
            for (size_t task; (task = next.fetch_add(1)) < tasks;) work(thread, task);
        } catch (...) {
            std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
        }
    };
    {
        Threads others;
        for (unsigned k = 1; k < std::min<size_t>(count, tasks); ++k) others.emplace_back(loop, k);
        loop(0);
    }
    if (failure) std::rethrow_exception(failure);
}

// Where the threads of a crew wait for each other.
class Gate {
public:
    Gate(size_t count, const std::atomic<Status>& stop) : count_(count), stop_(stop) {}

    // Wait until all have come; false where the crew stops meanwhile, and nobody may rely on the others any more.
    bool pass() {
        std::unique_lock lock(mutex_);
        const uint64_t mine = passed_;
        if (++waiting_ == count_) {
            waiting_ = 0;
            ++passed_;
            all_came_.notify_all();
        }
        while (passed_ == mine && stop_ == Status::DONE) all_came_.wait_for(lock, std::chrono::milliseconds(5));
        return passed_ != mine && stop_ == Status::DONE;
    }

private:
    const size_t count_;
    const std::atomic<Status>& stop_;
    std::mutex mutex_;
    std::condition_variable all_came_;
    size_t waiting_ = 0;
    uint64_t passed_ = 0;
};

}  // namespace polvet
