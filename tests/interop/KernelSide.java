import io.delta.kernel.*;
import io.delta.kernel.data.*;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.defaults.internal.data.DefaultColumnarBatch;
import io.delta.kernel.defaults.internal.data.vector.DefaultGenericVector;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.types.*;
import io.delta.kernel.unitycatalog.*;
import io.delta.kernel.utils.*;
import io.delta.storage.commit.uccommitcoordinator.*;
import io.unitycatalog.client.auth.TokenProvider;
import io.delta.kernel.internal.util.Utils;
import java.util.*;
import org.apache.hadoop.conf.Configuration;

/** Delta Kernel at a managed table: `read` prints the rows of each version, `write` appends numbers. */
public final class KernelSide {
  public static void main(String[] a) throws Exception {
    String url = a[0], token = a[1], id = a[2], location = a[3], what = a[4];
    long first = Long.parseLong(a[5]), count = Long.parseLong(a[6]);
    Engine engine = DefaultEngine.create(new Configuration());
    TokenProvider tokens = TokenProvider.create(Map.of("type", "static", "token", token));
    try (UCTokenBasedRestClient uc = new UCTokenBasedRestClient(url, tokens, Map.of())) {
      UCCatalogManagedClient client = new UCCatalogManagedClient(uc);
      UCTableIdentifier name = new UCTableIdentifier("lake", "sales", "orders");
      if (what.equals("read")) {
        for (long v = first; v < first + count; v++) {
          Snapshot s = client.loadSnapshot(engine, id, location, name, Optional.of(v), Optional.empty());
          System.out.println(s.getVersion() + " " + read(engine, s));
        }
        return;
      }
      int refused = 0;
      for (long n = first; n < first + count; ) {
        Snapshot s = client.loadSnapshot(engine, id, location, name, Optional.empty(), Optional.empty());
        try {
          System.out.println(n + " " + append(engine, s, n));
          n++;
        } catch (Exception e) {
          refused++;
          System.err.println(e);
          if (refused > 200) throw e;
        }
      }
      System.out.println("refused " + refused);
    }
  }

  static long append(Engine engine, Snapshot s, long number) throws Exception {
    Transaction txn = s.buildUpdateTableTransaction("kernel-test", Operation.WRITE).withMaxRetries(0).build(engine);
    Row state = txn.getTransactionState(engine);
    StructType schema = txn.getSchema(engine);
    ColumnVector vector = DefaultGenericVector.fromArray(LongType.LONG, new Object[] {number});
    ColumnarBatch batch = new DefaultColumnarBatch(1, schema, new ColumnVector[] {vector});
    CloseableIterator<FilteredColumnarBatch> rows = Utils.singletonCloseableIterator(new FilteredColumnarBatch(batch, Optional.empty()));
    CloseableIterator<FilteredColumnarBatch> physical = Transaction.transformLogicalData(engine, state, rows, Map.of());
    DataWriteContext context = Transaction.getWriteContext(engine, state, Map.of());
    CloseableIterator<DataFileStatus> files = engine.getParquetHandler().writeParquetFiles(context.getTargetDirectory(), physical, context.getStatisticsColumns());
    CloseableIterator<Row> actions = Transaction.generateAppendActions(engine, state, files, context);
    TransactionCommitResult done = txn.commit(engine, CloseableIterable.inMemoryIterable(actions));
    if (done.getVersion() % 2 == 0) done.getPostCommitSnapshot().get().publish(engine);
    return done.getVersion();
  }

  static List<Long> read(Engine engine, Snapshot s) throws Exception {
    List<Long> values = new ArrayList<>();
    Scan scan = s.getScanBuilder().build();
    Row state = scan.getScanState(engine);
    StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> files = batches.next().getRows()) {
          while (files.hasNext()) {
            Row file = files.next();
            FileStatus status = InternalScanFileUtils.getAddFileStatus(file);
            var data = engine.getParquetHandler().readParquetFiles(Utils.singletonCloseableIterator(status), physical, Optional.empty());
            var logical = Scan.transformPhysicalData(engine, state, file, data.map(r -> r.getData()));
            while (logical.hasNext()) {
              try (CloseableIterator<Row> rows = logical.next().getRows()) {
                while (rows.hasNext()) values.add(rows.next().getLong(0));
              }
            }
          }
        }
      }
    }
    Collections.sort(values);
    return values;
  }
}
