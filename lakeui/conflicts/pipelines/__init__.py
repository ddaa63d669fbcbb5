"""Programs elsewhere that report their transactions: what they may say, and how it is kept."""
