// Batches of questions about boxes, by several threads: the answers are those that one thread gives, one question after the other.
//
// A question's search depends on its seed alone, and threads take questions in their order. Questions of one group share its nodes
// and end with its first YES, so what a thread found too much is taken back when the answers are put together.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "boxes/boxes.h"
#include "store/threads.h"

namespace polvet {

namespace {

class Batch {
public:
    Batch(const BoxSystem& system, const std::vector<BatchQuestion>& questions, const Budget& budget, bool until_yes, unsigned threads)
        : system_(system),
          questions_(questions),
          budget_(budget),
          until_yes_(until_yes),
          threads_(threads),
          outcomes_(questions.size()),
          finished_(questions.size(), 0) {
        for (size_t k = 0; k < questions.size(); ++k)
            if (k == 0 || questions[k].group != questions[k - 1].group) begins_.push_back(k);
        yes_ = std::vector<std::atomic<size_t>>(begins_.size());
        for (auto& one : yes_) one = SIZE_MAX;
    }

    // Alone at first: most batches end before threads are worth their start. The question at hand then is asked again by a thread.
    std::vector<Outcome> run() {
        work(true);
        const size_t left = questions_.size() - next_;
        if (left > 0 && crew_.stop == Status::DONE)
            crew_.run(std::min(threads_, left), [this](size_t) { work(false); }, [this] { return poll(); });
        return put_together();
    }

private:
    size_t end_of(size_t group) const { return group + 1 < begins_.size() ? begins_[group + 1] : questions_.size(); }

    // A question whose answer cannot count any more.
    bool is_idle(size_t k) const { return crew_.stop != Status::DONE || yes_[questions_[k].group] < k || (until_yes_ && first_yes_ < k); }

    // The next question, and what its group has left as far as that is known: too much rather than too little.
    bool take(size_t& k, uint64_t& rest) {
        std::lock_guard lock(mutex_);
        while (next_ < questions_.size() && is_idle(next_)) ++next_;
        if (next_ == questions_.size()) return false;
        k = next_++;
        uint64_t spent = 0;
        for (size_t i = begins_[questions_[k].group]; i < k; ++i)
            if (finished_[i]) spent += outcomes_[i].nodes;
        rest = budget_.nodes > spent ? budget_.nodes - spent : 0;
        return true;
    }

    bool is_late() const {
        return threads_ > 1 && std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count() >= system_.alone;
    }

    // By the caller alone, in the midst of a question: time for threads, or Ctrl-C.
    bool is_cut() {
        crew_.stop = poll();
        return crew_.stop != Status::DONE || is_late();
    }

    // Answers questions until none is left; alone, until it is late: then the question at hand is given back.
    void work(bool alone) {
        size_t k = 0;
        uint64_t rest = 0;
        bool given_back = false;
        while (!(alone && is_late()) && take(k, rest)) {
            Budget mine{rest, budget_.deadline, [&, k] { return (alone && (given_back = given_back || is_cut())) || is_idle(k); }};
            Outcome outcome;
            if (std::chrono::steady_clock::now() > budget_.deadline) outcome.answer = BoxAnswer::UNKNOWN;
            else outcome = answer(questions_[k], mine);
            std::lock_guard lock(mutex_);
            if (given_back) {
                next_ = k;  // nobody else is at work yet
                return;
            }
            if (outcome.answer == BoxAnswer::YES) {
                least(yes_[questions_[k].group], k);
                least(first_yes_, k);
            }
            outcomes_[k] = std::move(outcome);
            finished_[k] = 1;
        }
    }

    Outcome answer(const BatchQuestion& stated, const Budget& budget) const {
        BoxQuestion question;
        std::vector<Row> made;
        if (!stated.state(question, made)) return {};
        return system_.find(question, stated.seed, budget);
    }

    Status poll() {  // Ctrl-C, by the thread that Python knows
        return budget_.interrupted && budget_.interrupted() ? Status::INTERRUPTED : Status::DONE;
    }

    // One answer per group, as if its questions had been asked one by one; with `until_yes` up to the first YES.
    std::vector<Outcome> put_together() {
        std::vector<Outcome> answers;
        for (size_t group = 0; group < begins_.size(); ++group) {
            Outcome result;
            uint64_t spent = 0;
            for (size_t k = begins_[group]; k < end_of(group); ++k) {
                Outcome outcome = finished_[k] ? std::move(outcomes_[k]) : Outcome{BoxAnswer::UNKNOWN, {}, 0, 0};
                const uint64_t rest = budget_.nodes > spent ? budget_.nodes - spent : 0;
                // SOUND: one by one this question had been given up; what was not asked because of its YES stays UNKNOWN.
                if (outcome.nodes > rest) outcome = {BoxAnswer::UNKNOWN, {}, rest + 1, 0};
                spent += outcome.nodes;
                outcome.number = k - begins_[group];
                const BoxAnswer said = outcome.answer;
                if (said == BoxAnswer::YES || said == BoxAnswer::UNKNOWN ||
                    (said == BoxAnswer::NEAR_TIE && result.answer != BoxAnswer::UNKNOWN))
                    result = std::move(outcome);
                if (said == BoxAnswer::YES) break;
            }
            result.nodes = spent;
            answers.push_back(std::move(result));
            if (until_yes_ && answers.back().answer == BoxAnswer::YES) break;
        }
        return answers;
    }

    static void least(std::atomic<size_t>& place, size_t value) {
        size_t old = place;
        while (value < old && !place.compare_exchange_weak(old, value)) {}
    }

    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    const BoxSystem& system_;
    const std::vector<BatchQuestion>& questions_;
    const Budget& budget_;
    const bool until_yes_;
    const size_t threads_;
    std::vector<size_t> begins_;            // of the groups
    std::vector<std::atomic<size_t>> yes_;  // per group: its first question that is answered YES so far
    std::atomic<size_t> first_yes_ = SIZE_MAX;
    Crew crew_;
    std::mutex mutex_;  // guards all below
    std::vector<Outcome> outcomes_;
    std::vector<uint8_t> finished_;
    size_t next_ = 0;
};

}  // namespace

std::vector<Outcome> BoxSystem::find_all(const std::vector<BatchQuestion>& questions, const Budget& budget, bool until_yes,
                                         unsigned threads) const {
    return Batch(*this, questions, budget, until_yes, threads).run();
}

}  // namespace polvet
