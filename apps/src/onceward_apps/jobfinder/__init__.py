"""The job finder: companies, their job boards, the listings there, and which of them match a person."""
