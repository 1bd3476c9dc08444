//! What the script answers becomes an outcome.

use redis::Value;

use crate::clock::Timestamp;
use crate::store::decision::{Decisions, Marks};
use crate::store::{Answer, Decision, Outcome};

use super::error::RedisStoreError;

/// An outcome, and how many values had to be healed for it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) healed: u64,
}

/// Numbers before those of the charges, and for each of them.
const HEAD: usize = 2;
const OF_CHARGE: usize = 6;

impl Reply {
    /// Takes nothing on trust: so many numbers, none of them negative, and answers that there are.
    pub(super) fn parse(value: &Value, charges: usize) -> Result<Self, RedisStoreError> {
        let Value::Array(items) = value else {
            return Err(RedisStoreError::reply("it is no array"));
        };
        if items.len() != HEAD + OF_CHARGE * charges {
            return Err(RedisStoreError::reply("it is too short or too long"));
        }
        let number = |index: usize| match items[index] {
            Value::Int(number) => u64::try_from(number).map_err(|_| RedisStoreError::reply("a number is negative")),
            _ => Err(RedisStoreError::reply("it holds something other than whole numbers")),
        };

        let mut decisions = Decisions::filled(Decision::FAILED, 0);
        let mut marks = Marks::filled(0, 0);
        for at in (0..charges).map(|nth| HEAD + OF_CHARGE * nth) {
            let answer = match number(at)? {
                0 => Answer::Admits,
                1 => Answer::Refuses,
                2 => Answer::NeverFits,
                _ => return Err(RedisStoreError::reply("an answer is unknown")),
            };
            decisions.push(
                Decision::new(answer)
                    .with_remaining(number(at + 1)?)
                    .with_retry_after_micros(number(at + 2)?)
                    .with_reset_after_micros(number(at + 3)?),
            );
            marks.push(number(at + 4)?);
            marks.push(number(at + 5)?);
        }
        Ok(Self {
            outcome: Outcome::from_parts(Timestamp::from_micros(number(0)?), decisions, marks),
            healed: number(1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            (0..4_i64).prop_map(Value::Int),
            any::<bool>().prop_map(Value::Boolean),
            any::<f64>().prop_map(Value::Double),
            any::<Vec<u8>>().prop_map(Value::BulkString),
            ".*".prop_map(Value::SimpleString),
        ];
        leaf.prop_recursive(3, 64, 20, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
                prop::collection::vec(inner, 0..20).prop_map(Value::Set),
            ]
        })
    }

    proptest! {
        /// Whatever a server sends is an outcome for each charge, or an error; never a panic.
        #[test]
        fn any_value_is_parsed_or_refused(value in value(), charges in 0..4_usize) {
            if let Ok(reply) = Reply::parse(&value, charges) {
                prop_assert_eq!(reply.outcome.decisions().len(), charges);
            }
        }

        #[test]
        fn numbers_are_taken_as_they_are(numbers in prop::collection::vec(0..i64::MAX, 14), answers in (0..6_i64, 0..6_i64)) {
            let mut numbers = numbers;
            (numbers[2], numbers[8]) = answers;
            let value = Value::Array(numbers.iter().copied().map(Value::Int).collect());
            let known = answers.0 < 3 && answers.1 < 3;
            let reply = Reply::parse(&value, 2);
            prop_assert_eq!(reply.is_ok(), known);
            if let Ok(reply) = reply {
                let decision = reply.outcome.decisions()[1];
                prop_assert_eq!(decision.remaining(), numbers[9] as u64);
                prop_assert_eq!(decision.reset_after().as_micros(), numbers[11] as u128);
                prop_assert_eq!(reply.outcome.now().as_micros(), numbers[0] as u64);
            }
        }
    }
}
